"""
`make demo`: trains, evaluates and uses a biLM.

Each step but the first and the last is an `allennlp` command, which is printed when it is run.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from allennlp.common.file_utils import cached_path

from elmo_plugin.data.installed_docs import SPLITS

OUT = Path("demo-out")
BILM, TAGGER = OUT / "bilm", OUT / "tagger"
STICK = ("Let 's stick to improvisation in this skit .", "He threw the stick to the dog .")
SENTENCES = (*STICK, "Returns the number of elements in the array .")
COLUMNS = ("forward", "backward", "joint")
# AllenNLP logs every parameter; a demonstration is easier to follow without.
QUIET = {"ALLENNLP_LOG_LEVEL": "WARNING", "PYTHONWARNINGS": "ignore", "ELMO_ARCHIVE": ""}


def main() -> None:
    began = time.monotonic()
    if OUT.exists():
        shutil.rmtree(OUT)
    OUT.mkdir()

    say("1. Text that is in every installation, encoded once")
    for split in SPLITS:
        cached_path(f"docs://{split}")  # both come from one pass, so they are made in one process
    for split in SPLITS:
        allennlp("bilm-encode", f"docs://{split}", OUT / split)

    say("2. A biLM, trained on it for a few minutes")
    config = "training_configs/bilm.jsonnet"
    allennlp("train", config, "--include-package", "elmo_plugin", "-s", BILM)

    say("3. Its perplexity on held-out text, with the full softmax")
    metrics = OUT / "heldout.json"
    allennlp("evaluate", BILM / "model.tar.gz", "docs://heldout", "--output-file", metrics)

    say("4. Its predictions for three sentences")
    sentences, predictions = OUT / "sentences.txt", OUT / "predictions.jsonl"
    sentences.write_text("".join(sentence + "\n" for sentence in SENTENCES))
    allennlp("predict", BILM / "model.tar.gz", sentences, "--output-file", predictions, "--silent")
    for line in predictions.read_text().splitlines():
        show_prediction(json.loads(line))

    say("5. A tagger with ELMo swapped in, trained for an epoch")
    config = "training_configs/tagger_elmo.jsonnet"
    os.environ["ELMO_ARCHIVE"] = str(BILM / "model.tar.gz")
    allennlp("train", config, "--include-package", "elmo_plugin", "-s", TAGGER)

    say("6. Results")
    summarise(json.loads(metrics.read_text()))
    minutes, seconds = divmod(int(time.monotonic() - began), 60)
    print(f"\nAll of this took {minutes} min {seconds:02d} s.")


def say(title: str) -> None:
    print(f"\n{title}\n{'=' * len(title)}", flush=True)


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
    """Cases of the `comparison` in which a model is as good as the biLM, and the two numbers."""
    return [
        f"{model} ({column}): {found:.1f} against {perplexity:.1f}"
        for model, row in compared.items()
        if model != "biLM"
        for column, found, perplexity in zip(COLUMNS, compared["biLM"], row)
        if not found < perplexity
    ]


def summarise(biLM: dict[str, float]) -> None:
    import numpy as np

    from demo.ngrams import perplexities
    from elmo_plugin import Elmo
    from elmo_plugin.data.text import read_sentences
    from elmo_plugin.data.vocabulary import read_vocabulary_file

    words = read_vocabulary_file(BILM / "vocabulary" / "words.txt")
    number = {word: index for index, word in enumerate(words)}

    def numbers(path: str) -> list[np.ndarray]:
        return [
            np.array([0, *(number.get(word, 2) for word in sentence), 1])
            for sentence in read_sentences(path)
        ]

    ngrams = perplexities(numbers("docs://train"), numbers("docs://heldout"), len(words))
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
    print(f"  cosine of the two: {vectors[0] @ vectors[1]:.2f} (of the word alone it is 1)")

    accuracy = json.loads((TAGGER / "metrics.json").read_text())["best_validation_accuracy"]
    print(f"\nThe tagger's accuracy after one epoch of a few sentences: {accuracy:.0%}")
    print(f"The learning curve: {BILM / 'learning_curve.png'}")
    print(
        "\nTo try next:\n"
        "  train on your own text       README.md, 'Train on your own text'\n"
        "  put ELMo into your config    training_configs/tagger_elmo.jsonnet is one\n"
        "  vectors of a whole text      allennlp elmo TEXT OUT.hdf5 --all "
        f"--archive-file {BILM / 'model.tar.gz'}\n"
        "  the paper's sizes            training_configs/bilm_1b.jsonnet"
    )


if __name__ == "__main__":
    main()
