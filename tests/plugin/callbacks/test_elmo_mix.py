"""The mixes of a tagger while it is trained, in the log, on TensorBoard and in its archive."""

import re
import struct
from pathlib import Path

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from tensorboardX.proto.event_pb2 import Event

from elmo_plugin.elmo.mixes import find_mixes
from elmo_plugin.files.torch_file import load_torch_file
from elmo_plugin.formats.archive_files import read_weights, unpacked
from tests.conftest import ROOT

EMBEDDER = "text_field_embedder.token_embedder_elmo._elmo"


def config(archive_file: str, callbacks: list[dict]) -> Params:
    """A tagger with two mixes, and 3 batches in an epoch."""
    embedder = {"type": "elmo", "archive_file": archive_file, "num_output_representations": 2}
    return Params(
        {
            "dataset_reader": {
                "type": "sequence_tagging",
                "token_indexers": {"elmo": {"type": "elmo"}},
                "max_instances": 12,
            },
            "train_data_path": str(ROOT / "fixtures" / "tagging" / "train.tsv"),
            "model": {
                "type": "simple_tagger",
                "text_field_embedder": {"token_embedders": {"elmo": embedder}},
                "encoder": {"type": "pass_through", "input_dim": 32},
            },
            "data_loader": {"batch_size": 4},
            "trainer": {
                "optimizer": {"type": "adam", "lr": 0.1},
                "num_epochs": 2,
                "callbacks": callbacks,
            },
        }
    )


def tensorboard_scalars(folder: Path) -> dict[tuple[str, int], float]:
    """The scalars in the event files of a folder, by name and step. Each record is its length in 8
    bytes, a checksum of 4, the event, and a checksum of 4 (TensorFlow's TFRecord)."""
    found = {}
    for file in folder.glob("events.*"):
        data = file.read_bytes()
        while data:
            end = 12 + struct.unpack("<Q", data[:8])[0]
            event = Event.FromString(data[12:end])
            found.update({(v.tag, event.step): v.simple_value for v in event.summary.value})
            data = data[end + 4 :]
    return found


def test_mixes_in_training(bilm_archive: str, tmp_path: Path) -> None:
    """Expected: s and gamma computed from the weights in the archive, and logged after the batches
    2, 3 (an epoch), 4 and 6. AllenNLP's callback adds 1 to the number of the batch."""
    callbacks = [{"type": "elmo_mix", "interval": 2}, {"type": "tensorboard"}]
    train_model(config(bilm_archive, callbacks), str(tmp_path / "run"))
    log = (tmp_path / "run" / "out.log").read_text().splitlines()
    state = load_torch_file(tmp_path / "run" / "best.th")
    scalars = tensorboard_scalars(tmp_path / "run" / "log" / "train")
    with unpacked(tmp_path / "run" / "model.tar.gz") as folder:
        archived = find_mixes(read_weights(folder))
    assert list(archived) == [f"{EMBEDDER}.scalar_mix_{k}" for k in (0, 1)]
    for name, mix in archived.items():
        w = torch.cat([state[f"{name}.scalar_parameters.{j}"] for j in range(3)])
        expected = [*(w.exp() / w.exp().sum()).tolist(), float(state[f"{name}.gamma"])]
        assert [*mix.weights, mix.gamma] == pytest.approx(expected)
        assert not all(s_j == pytest.approx(1 / 3) for s_j in mix.weights)
        keys = [f"elmo_mix/{name}/{key}" for key in ("s_0", "s_1", "s_2", "gamma")]
        assert [scalars[key, 7] for key in keys] == pytest.approx(expected)
        assert sorted(step for key, step in scalars if key == keys[0]) == [3, 4, 5, 7]
        lines = [line for line in log if f"{name}: s" in line]
        batches = [int(re.findall(r"batch (\d+)", line)[0]) for line in lines]
        assert batches == [2, 3, 4, 6]
        numbers = [float(number) for number in re.findall(r"\d\.\d+", lines[-1])]
        assert numbers == pytest.approx(expected, abs=1e-4)


def test_without_tensorboard_and_without_elmo(bilm_archive: str, tmp_path: Path) -> None:
    """A model without ELMo is trained, with a warning."""
    params = config(bilm_archive, [{"type": "elmo_mix"}])
    tokens = {"type": "embedding", "embedding_dim": 32}
    params["model"]["text_field_embedder"]["token_embedders"] = {"tokens": tokens}
    params["dataset_reader"]["token_indexers"] = {"tokens": "single_id"}
    train_model(params, str(tmp_path / "run"))
    log = (tmp_path / "run" / "out.log").read_text()
    assert "elmo_mix: the model has no mix of ELMo's layers" in log
