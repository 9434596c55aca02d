"""A folder in which the documentation's commands run as they are printed."""

import gzip
from pathlib import Path

import h5py
import torch
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids

from elmo_plugin.pretrained import pretrained_files
from tests.docs.pages import ROOT
from tests.experiments.test_probe import CONLLU

TEXT = ROOT / "fixtures" / "text"

# The configs of the repository in sizes for seconds. Those of two cores keep their own.
_TEXT = (
    "train_data_path: 'fixtures/text/train.txt', validation_data_path: 'fixtures/text/heldout.txt'"
)
# Those of `tiny`, whose files have the names OPTIONS, WEIGHTS and VOCABULARY.
_TINY = """
  model+: {
    char_cnn+: { filters: [[1, 4], [2, 4], [3, 8], [4, 16], [5, 32], [6, 64]], n_highway: 1 },
    lstm+: { dim: 256, projection_dim: 32 },
    n_negative_samples: 16,
  },
"""
_SIZES = """
  vocabulary+: { max_size: 200 },
  model+: {
    char_cnn+: { filters: [[1, 4], [2, 8]] },
    lstm+: { dim: 80 },  // and 64 as its projection_dim, so that vectors have 128
    n_negative_samples: 16,
  },
"""
SMALLER = {
    "bilm": f"{_TEXT}, {_SIZES}",
    "bilm_tf": f"{_TEXT}, {_SIZES}",
    "bilm_1b": _TINY,
    "bilm_words": f"{_TEXT}, vocabulary+: {{ max_size: 99 }}, model+: {{ n_negative_samples: 9 }}",
    "bilm_small": "model+: { n_negative_samples: 16 }",
    "bilm_finetune": "trainer+: { num_epochs: 1 }",
    "tagger": "trainer+: { num_epochs: 1 }",
    "tagger_elmo": "trainer+: { num_epochs: 1 }",
    "ner": "hidden_size:: 8, trainer+: { num_epochs: 1 }",
    "esim": "dim:: 8, trainer+: { num_epochs: 1 }",
}


def prepare(folder: Path) -> None:
    """Write what the checkout has and what a reader has, under the names of the pages."""
    for name in (".allennlp_plugins", "fixtures", "experiments", "recipes", "benchmarks"):
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)
    configs = folder / "training_configs"
    configs.mkdir()
    for whole in (ROOT / "training_configs").iterdir():
        if whole.stem in SMALLER:
            (configs / whole.name).write_text(f"(import '{whole}') + {{ {SMALLER[whole.stem]} }}")
        else:
            (configs / whole.name).symlink_to(whole)

    small = ROOT / "training_configs" / "bilm_small.jsonnet"
    (folder / "my_bilm.jsonnet").write_text(f"import '{small}'")
    (folder / "my.jsonnet").write_text("import 'training_configs/esim.jsonnet'")
    (folder / "my_task.jsonnet").write_text("import 'training_configs/esim.jsonnet'")
    (folder / "my_ner.jsonnet").write_text("import 'training_configs/ner.jsonnet'")
    (folder / "my" / "text").mkdir(parents=True)
    text = (TEXT / "train.txt").read_bytes()
    (folder / "my" / "text" / "part.txt.gz").write_bytes(gzip.compress(text))
    words = sorted(set(text.decode().split()))
    (folder / "my" / "words.txt").write_text("\n".join(["<S>", "</S>", "<UNK>", *words, ""]))
    (folder / "my" / "dev.txt").symlink_to(TEXT / "heldout.txt")
    (folder / "train").symlink_to(TEXT / "train.txt")
    (folder / "heldout").symlink_to(TEXT / "heldout.txt")
    sentences = [line for line in text.decode().splitlines() if line]
    (folder / "TEXT").write_text("\n".join(sentences[:20]) + "\n")
    for name in ("OLD", "NEW"):
        (folder / name).symlink_to(ROOT / "fixtures" / "change" / f"{name.lower()}.txt")
    (folder / "eng.train").symlink_to(ROOT / "fixtures" / "ner" / "train.conll")
    (folder / "eng.testa").symlink_to(ROOT / "fixtures" / "ner" / "dev.conll")
    treebank = folder / "UD_GERMAN_GSD"
    treebank.mkdir()
    for split in ("train", "dev"):
        (treebank / f"de_gsd-ud-{split}.conllu").write_text(CONLLU)
    row = "the " + " ".join(["0.1"] * 50) + "\n"
    (folder / "glove.6B.50d.txt.gz").write_bytes(gzip.compress(row.encode()))
    for name, file in zip(("OPTIONS", "WEIGHTS", "VOCABULARY"), pretrained_files("tiny")):
        (folder / name).symlink_to(file)
    old_vectors(folder / "OLD_VECTORS.hdf5", [x.split() for x in sentences[:20]], folder)


def old_vectors(file: Path, sentences: list[list[str]], folder: Path) -> None:
    """Write what bilm-tf's `dump_bilm_embeddings` writes: all layers of each sentence, with the
    state carried from sentence to sentence, here by AllenNLP's modules."""
    bilm = _ElmoBiLm(str(folder / "OPTIONS"), str(folder / "WEIGHTS"))
    with h5py.File(file, "w") as out, torch.no_grad():
        for number, sentence in enumerate(sentences):
            layers = bilm(batch_to_ids([sentence]))["activations"]
            out[str(number)] = torch.stack([x[0, 1:-1] for x in layers]).numpy()
