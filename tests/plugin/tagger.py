"""A small task with ELMo."""

from allennlp.common import Params

from tests.conftest import ROOT


def config(archive_file: str) -> Params:
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
            "trainer": {"optimizer": {"type": "adam", "lr": 0.1}, "num_epochs": 2},
        }
    )
