"""
`make demo`: trains, evaluates and uses a biLM.

Most steps are `allennlp` commands, which are printed.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from textwrap import fill

import numpy as np
from allennlp.common.file_utils import cached_path

from demo.ngrams import perplexities
from elmo_plugin import Elmo
from elmo_plugin.formats.bilm_tf.texts import read_vocabulary_file
from elmo_plugin.plugin.data.installed_docs import SPLITS
from elmo_plugin.text import read_sentences

OUT = Path("demo-out")
BILM, TEXT = OUT / "bilm", OUT / "text"
EVERY = 3  # uses every third training document, so that the demo takes minutes
STICK = ("Let 's stick to improvisation in this skit .", "He threw the stick to the dog .")
SENTENCES = (*STICK, "Returns the number of elements in the array .")
COLUMNS = ("forward", "backward", "joint")
TAGGERS: dict[str, str | None] = {
    "without ELMo": None,
    "with the biLM of this demo": str(BILM / "model.tar.gz"),
    "with `small`, which is in the package": "pretrained://small",
}
# AllenNLP logs every parameter; the demo is easier to follow without.
QUIET = {"ALLENNLP_LOG_LEVEL": "WARNING", "PYTHONWARNINGS": "ignore"}
CONFIG = f"""(import '../training_configs/bilm.jsonnet') + {{
  train_data_path: '{TEXT / "train"}',
  validation_data_path: '{TEXT / "heldout"}',
}}
"""
INCLUDE = ("--include-package", "elmo_plugin")
TO_TRY_NEXT = f"""
To try next:
  train on your own text       README.md, 'Train a biLM'
  put ELMo into your config    training_configs/tagger_elmo.jsonnet is one
  vectors of a whole text      python -m elmo_plugin elmo TEXT OUT.hdf5 --all --pretrained small
  the paper's sizes            training_configs/bilm_1b.jsonnet
The learning curve of the biLM: {BILM / "learning_curve.png"}"""


def main() -> None:
    began = time.monotonic()
    if OUT.exists():
        shutil.rmtree(OUT)
    TEXT.mkdir(parents=True)

    say(
        "1. Encode text that every installation contains",
        "A corpus is encoded once, and training then reads numbers. The text is Python's "
        "documentation and docstrings, collected once, for half a minute.",
    )
    for split in SPLITS:
        write_text(split)
        allennlp("bilm-encode", TEXT / f"{split}.txt", TEXT / split)

    say(
        "2. Train a biLM on it for a minute",
        "A biLM of your own needs one config, which inherits all settings but the paths.",
    )
    config = OUT / "bilm.jsonnet"
    config.write_text(CONFIG)
    print(f"{CONFIG}")
    allennlp("train", config, *INCLUDE, "-s", BILM)

    say(
        "3. Evaluate its perplexity on held-out text",
        "AllenNLP's `evaluate` computes exact perplexities, with the full softmax, in both "
        "directions.",
    )
    metrics = OUT / "heldout.json"
    heldout = TEXT / "heldout.txt"
    allennlp("evaluate", BILM / "model.tar.gz", heldout, "--output-file", metrics)

    say(
        "4. Predict lexical substitutes in three sentences",
        "AllenNLP's `predict` gives the words that the biLM expects at each position, from the "
        "words on both sides.",
    )
    sentences, predictions = OUT / "sentences.txt", OUT / "predictions.jsonl"
    sentences.write_text("".join(sentence + "\n" for sentence in SENTENCES))
    allennlp("predict", BILM / "model.tar.gz", sentences, "--output-file", predictions, "--silent")
    for line in predictions.read_text().splitlines():
        show_prediction(json.loads(line))

    say(
        "5. Train a POS tagger without and with ELMo",
        "Adding ELMo to a config takes one line, and the tagger makes fewer errors.",
    )
    accuracies = {}
    for number, (name, archive) in enumerate(TAGGERS.items()):
        accuracies[name] = train_tagger(OUT / f"tagger{number}", archive)

    say("6. Results", "The biLM is compared with n-gram models of the same text and vocabulary.")
    summarise(json.loads(metrics.read_text()))
    print("\nPOS tagging accuracy after training on 160 sentences:\n")
    for name, accuracy in accuracies.items():
        print(f"  {name:40} {accuracy:.1%}")
    print(TO_TRY_NEXT)
    minutes, seconds = divmod(int(time.monotonic() - began), 60)
    print(f"\nThe demo took {minutes} min {seconds:02d} s.")


def say(title: str, shown: str) -> None:
    print(f"\n{title}\n{'=' * len(title)}\n{fill(shown, 100)}\n", flush=True)


def write_text(split: str) -> None:
    """Write the documents of the split that the demo uses."""
    documents = Path(cached_path(f"docs://{split}")).read_text("utf-8").split("\n\n")
    used = documents[:: EVERY if split == "train" else 1]
    (TEXT / f"{split}.txt").write_text("\n\n".join(used), "utf-8")


def train_tagger(folder: Path, archive: str | None) -> float:
    """Train the tagger, with ELMo vectors if `archive` is given. Returns its accuracy."""
    config = "training_configs/tagger.jsonnet"
    if archive is not None:
        config = "training_configs/tagger_elmo.jsonnet"
        dim = Elmo.from_archive(archive).output_dim
        os.environ |= {"ELMO_ARCHIVE": archive, "ELMO_DIM": str(dim)}
    allennlp("train", config, *INCLUDE, "-s", folder)
    return json.loads((folder / "metrics.json").read_text())["best_validation_accuracy"]


def allennlp(*arguments: object) -> None:
    command = ["allennlp", *map(str, arguments)]
    print(f"$ {shlex.join(command)}", flush=True)
    executable = Path(sys.executable).with_name("allennlp")
    environment = {**QUIET, **os.environ}
    done = subprocess.run([str(executable), *command[1:]], env=environment)
    if done.returncode:
        sys.exit(f"`{shlex.join(command)}` failed with status {done.returncode}")


def show_prediction(prediction: dict) -> None:
    print(f"\n{' '.join(prediction['tokens'])}   (perplexity {prediction['perplexity']:.0f})")
    for token, found in zip(prediction["tokens"], prediction["substitutes"]):
        words = "  ".join(f"{word['word']} {word['probability']:.2f}" for word in found)
        print(f"  {token:>15}  {words}")


def comparison(
    ngrams: dict[str, float], biLM: dict[str, float]
) -> dict[str, tuple[float, float, float]]:
    """Each model's perplexities, in the order of `COLUMNS`; the biLM comes last."""
    forward, backward = ngrams["forward_bigram"], ngrams["backward_bigram"]
    return {
        "unigram": (ngrams["unigram"],) * 3,
        "bigram, Kneser-Ney": (forward, backward, (forward * backward) ** 0.5),
        "biLM": (biLM["forward_perplexity"], biLM["backward_perplexity"], biLM["perplexity"]),
    }


def not_beaten(compared: dict[str, tuple[float, float, float]]) -> list[str]:
    """
    Cases of the `comparison` in which a model is at least as good as the biLM, with both numbers.
    """
    return [
        f"{model} ({column}): {found:.1f} against {perplexity:.1f}"
        for model, row in compared.items()
        if model != "biLM"
        for column, found, perplexity in zip(COLUMNS, compared["biLM"], row)
        if not found < perplexity
    ]


def summarise(biLM: dict[str, float]) -> None:
    words = read_vocabulary_file(BILM / "vocabulary" / "words.txt")
    number = {word: index for index, word in enumerate(words)}

    def numbers(split: str) -> list[np.ndarray]:
        return [
            np.array([0, *(number.get(word, 2) for word in sentence), 1])
            for sentence in read_sentences(str(TEXT / f"{split}.txt"))
        ]

    ngrams = perplexities(numbers("train"), numbers("heldout"), len(words))
    compared = comparison(ngrams, biLM)
    print(f"Held-out perplexity over {len(words):,} words, full softmax (lower is better):\n")
    print(f"{'':24}" + "".join(f"{column:>10}" for column in COLUMNS))
    for model, row in compared.items():
        print(f"{model:24}" + "".join(f"{perplexity:>10.1f}" for perplexity in row))
    lost = not_beaten(compared)
    claim = f"does not beat {'; '.join(lost)}" if lost else "beats both n-gram models throughout"
    print(f"\nThe biLM {claim}.", flush=True)
    if lost:
        sys.exit(1)

    elmo = Elmo.from_archive(BILM / "model.tar.gz")
    print("\nOne word, two meanings; the top layer's vector of 'stick' begins")
    vectors = []
    for sentence in STICK:
        vector = elmo.embed(sentence, layer="top")[sentence.split().index("stick")]
        vectors.append(vector / np.linalg.norm(vector))
        print(f"  {np.array2string(vector[:6], precision=2, sign=' ')}  in  {sentence}")
    print(f"  cosine of the two: {vectors[0] @ vectors[1]:.2f} (1 without context)")


if __name__ == "__main__":
    main()
