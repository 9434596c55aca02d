"""AllenNLP's command `diff` of biLMs, whose number of warm states is a whole number."""

import re
import shutil
import tarfile
from pathlib import Path

import pytest
import torch

from tests.conftest import allennlp


def lines(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    capsys.readouterr()
    allennlp("diff", *arguments)
    return re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()


def test_diff_of_bilms(bilm_archive: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """By hand: an archive is like its own weights and its folder, and one weight is changed by 3 of
    the root of its number of elements, so that the root of the mean square is 3."""
    with tarfile.open(bilm_archive) as archive:
        archive.extractall(tmp_path / "run", filter="data")
    weights = tmp_path / "run" / "weights.th"
    state = torch.load(weights)
    for one, other in ((bilm_archive, bilm_archive), (bilm_archive, weights)):
        found = lines(capsys, one, other)
        assert len(found) == len(state) and {line[0] for line in found} == {" "}
    bias = state["softmax.bias"]
    bias[0] += 3 * len(bias) ** 0.5
    torch.save(state, weights)
    shutil.rmtree(tmp_path / "run" / "vocabulary")
    found = [line for line in lines(capsys, bilm_archive, tmp_path / "run") if line[0] != " "]
    assert found == [f"!softmax.bias, shape = ({len(bias)},), distance = 3.0000"]


def test_diff_strips_a_prefix_at_any_address(capsys: pytest.CaptureFixture) -> None:
    """By definition of the option: the keys of one model lack the prefix, so that they differ."""
    name = "pretrained://tiny"
    assert {line[0] for line in lines(capsys, name, name)} == {" "}
    found = lines(capsys, name, name, "--strip-prefix-2", "softmax.")
    assert [line.partition(",")[0] for line in found if line[0] != " "] == [
        *("-softmax.weight", "-softmax.bias", "+weight", "+bias")
    ]
