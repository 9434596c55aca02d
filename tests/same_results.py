"""
Runs the same commands and calls in two checkouts of this project, and compares all files that they
write byte for byte, for changes of the code that keep every number and every layout:

    python -m tests.same_results OTHER_CHECKOUT [--only PATTERN] [--kills 20] [--seed 0]

The cases are the forms of text, with the options that change how it is read, computed and written.
With `--kills`, each command that can be resumed is also killed at random moments and run again
until it is done, and its file has to be the same too.
"""

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

SENTENCES = [
    "The nurse drank the cold water .",
    "It rained",
    "Jocasta read the letter from Kaikki , and the old dog slept near the bank .",
    "<unk> ba\u00adnk 🙂 caf\u00e9 '' `` .",
    "The dog ran to the bank .",
    "Internationalizations" * 4,
    "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 3,
    "The cat sat .",
    "She can't \u201csee\u201d the dog 's owner .",
]
RAW = [
    "It isn't easy. The dog ran to the bank!",
    "\u201cWhat is it?\u201d asked Dr. Jones.",
    "The cat \u2014 a black one \u2014 sat near the bank. Then it left.",
    "R&B is <|endoftext|> music.",
]
WRAPPED = (
    "The dog ran to the\nbank. It was\nold.\n\nThe cat saw the dog. \u201cIt is\nhere.\u201d\n"
)


def write_inputs(folder: Path) -> None:
    """The files of text, tables, words and pairs."""
    folder.mkdir()
    files = {
        "tokens": "\n".join(SENTENCES * 5),
        "raw": "\n".join(RAW * 6),
        "running": WRAPPED * 6,
        "documents": "\n".join([*SENTENCES[:3], "", *SENTENCES[3:5], "", "", *SENTENCES[5:]] * 3),
        "words": "dog\nbank\nice cream\nbe\tis was\nold\told\tolder\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text + "\n", "utf-8")
    rows = [(x, x.find("dog"), x.find("dog") + 3, "dog") for x in RAW * 3 if "dog" in x]
    table = "".join(f'"{x}",{a},{b},{word}\n' for x, a, b, word in rows)
    (folder / "table.csv").write_text(f"sentence,start,end,word\n{table}", "utf-8")
    rows = [("The dog ran .", 1, 2, "dog"), ("A bank near it .", 1, 2, "bank")] * 4
    table = "".join(f"{x}\t{a}\t{b}\t{word}\n" for x, a, b, word in rows)
    (folder / "places.tsv").write_text(f"sentence\tstart\tend\tword\n{table}", "utf-8")
    pairs = [("The dogs run .", "The dogs runs ."), ("It is. It was.", "It are. It were.")] * 3
    lines = [{"sentence_good": x, "sentence_bad": y, "UID": x[:2]} for x, y in pairs]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines), "utf-8")


TEXTS = {"tokens": "", "raw": "--raw", "running": "--running-text"}
STATES = ("warm", "zero", "carry")
SHARDS = ("1/1", "2/3")


def commands() -> Iterator[tuple[str, list[str]]]:
    """A name and the arguments of each command; IN and OUT stand for folders."""
    for (text, raw), state, shard in product(TEXTS.items(), STATES, SHARDS):
        if state == "carry" and shard != "1/1":
            continue
        common = [*raw.split(), "--initial-state", state, "--shard", shard]
        for layer, more, out in (
            ("--all", [], "out"),
            ("--top", ["--float16", "--use-sentence-keys", "--forget-sentences"], "out"),
            ("--average", ["--pool", "mean"], "out"),
            ("--top", ["--pool", "mean"], "out.npy"),
        ):
            if "--use-sentence-keys" in more and text != "tokens":
                more = more[:1]
            yield "elmo", [f"IN/{text}", f"OUT/{out}", layer, *more, *common]
        for form, more in product(("csv", "jsonl"), ([], ["--entropy", "--rank", "--base", "e"])):
            options = ["--format", form, *more, *common, "--unknown-missing"]
            yield "score", [f"IN/{text}", "--output-file", "OUT/out", *options]
            yield "score", [f"IN/{text}", *options]
    for state, form in product(STATES, ("csv", "jsonl")):
        options = ["--documents", "--initial-state", state, "--format", form]
        yield "score", ["IN/documents", "--output-file", "OUT/out", *options]
    for raw, more in product(([], ["--raw"]), ([], ["--each-pair"], ["--per-token"])):
        yield "score", ["--pairs", "IN/pairs.jsonl", *raw, *more]
    for raw in ([], ["--raw"]):
        yield "score", ["IN/table.csv", "--output-file", "OUT/out", *raw]
        yield "elmo", ["IN/table.csv", "OUT/out", "--top", *raw]
    for (text, raw), shard, more in product(
        TEXTS.items(), SHARDS, ([], ["--most", "2", "--seed", "3"], ["--layer", "0"])
    ):
        yield "uses", [f"IN/{text}", "IN/words", "OUT/out", *raw.split(), "--shard", shard, *more]
    controls = ["--controls", "1", "--compared-with", "IN/documents"]
    yield "uses", ["IN/tokens", "IN/words", "OUT/out", *controls]
    yield "uses", ["IN/table.csv", "characters", "OUT/out", "--raw"]
    yield "uses", ["IN/places.tsv", "tokens", "OUT/out"]
    for precision in ("bf16", "int8"):
        yield "elmo", ["IN/tokens", "OUT/out", "--top", "--precision", precision]
        yield "score", ["IN/raw", "--raw", "--precision", precision]
        yield "uses", ["IN/tokens", "IN/words", "OUT/out", "--precision", precision]


def calls() -> dict[str, Callable[[Any, Any], Any]]:
    """Calls in Python, each of an `Elmo` and a `LanguageModel`."""
    import pandas

    lists = [x.split() for x in SENTENCES]
    column = pandas.Series(RAW, index=list("abcd"))
    labels = [0, 0, 0, 1, 1, 2, 2, 2, 2]
    start = [x.find("dog") if "dog" in x else 0 for x in SENTENCES]
    end = [x + 3 for x in start]
    found: dict[str, Callable[[Any, Any], Any]] = {
        "documents": lambda _, model: model.score(lists, documents=labels, entropy=True, rank=True),
        "spans": lambda elmo, _: elmo.embed_spans(SENTENCES, start, end, "all"),
        "raw spans": lambda elmo, _: elmo.embed_spans(RAW, [0, 1, 4, 0], [5, 6, 9, 3], raw=True),
        "continuations": lambda _, model: model.score_continuations(["The"] * 2, ["dog", "cat"]),
        "uses": lambda elmo, _: elmo.uses(lists, ["dog", "bank"]).to_dict("list"),
        "raw uses": lambda elmo, _: elmo.uses(column, {"d": ["dog", "dogs"]}, raw=True, most=2),
        "substitutes": lambda _, model: model.substitutes(lists[:3], k=2),
        "raw substitutes": lambda _, model: model.substitutes(RAW[0], [0, 5], 2, raw=True),
        "perplexity": lambda _, model: model.perplexity(RAW, raw=True),
        "characters": lambda elmo, _: elmo.characters(lists).numpy(),
    }
    texts: dict[str, tuple[Any, bool]] = {
        "a string": (SENTENCES[0], False),
        "a list": (lists[0], False),
        "lists": (lists, False),
        "a column": (pandas.Series(SENTENCES), False),
        "a raw string": (RAW[0], True),
        "a raw column": (column, True),
        "nothing": ([[]], False),
    }
    for name, (text, raw) in texts.items():
        for layer, pool in product(("mix", "all", 1), (None, "mean")):
            options = {"layer": layer, "pool": pool, "raw": raw}
            found[f"embed {name} {layer} {pool}"] = partial(_embed, text, options)
        found[f"score {name}"] = partial(_score, text, raw)
        found[f"stream {name}"] = partial(_stream, text, raw)
    return found


def _embed(text: Any, options: dict[str, Any], elmo: Any, _: Any) -> Any:
    return elmo.embed(text, **options)


def _score(text: Any, raw: bool, _: Any, model: Any) -> Any:
    return model.score(text, raw=raw)


def _stream(text: Any, raw: bool, elmo: Any, _: Any) -> Any:
    return list(elmo.stream([text] if isinstance(text, str) else text, raw=raw))


def in_child(work: Callable[[], Any], stdout: Path, seconds: float | None = None) -> bool:
    """
    Whether `work` was done in a fork of this process, or `False` if it was killed after so many
    seconds. Its standard output goes to a file.
    """
    child = os.fork()
    if not child:
        with stdout.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        status: Any = 1
        try:
            status = work()
            stdout.with_name("error").write_text(str(status)) if status else None
        finally:
            sys.stdout.flush()
            os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def produce(folder: Path, only: str, kills: int, seed: int) -> None:
    """Run all cases with the package that Python imports, and write their files to a folder."""
    import torch

    from elmo_plugin.commands.runner import NAMES, command_named, run_program

    torch.set_num_threads(1)
    for name in NAMES:
        command_named(name)
    for module in [x for x in sys.modules.values() if x.__name__.startswith("elmo_plugin")]:
        if hasattr(module, "PART_SENTENCES"):
            module.PART_SENTENCES = 8
    write_inputs(folder / "in")
    random = Random(seed)
    for name, arguments in commands():
        case = f"{name} {' '.join(arguments)}"
        if not re.search(only, case):
            continue

        def run(out: Path, name: str = name, arguments: list[str] = arguments) -> Any:
            own = [x.replace("IN/", f"{folder}/in/").replace("OUT/", f"{out}/") for x in arguments]
            return run_program(name, [*own, "--pretrained", "tiny"])

        out = folder / case.replace("/", "|")
        out.mkdir()
        begun = time.monotonic()
        in_child(partial(run, out), out / "stdout")
        took = time.monotonic() - begun
        for number in range(kills if any("OUT/" in x for x in arguments) else 0):
            again = folder / f"killed {number} {case.replace('/', '|')}"
            again.mkdir()
            while not in_child(partial(run, again), again / "stdout", took * random.random() * 1.5):
                pass
            error = again / "error"
            if error.exists() and "to write a new file, found one" in error.read_text():
                error.unlink()  # it was killed after its end
    for name, call in calls().items():
        if re.search(only, f"call {name}"):
            in_child(partial(print_results, call), folder / f"call {name}")


def print_results(call: Callable[[Any, Any], Any]) -> None:
    """Print a digest of each array of a result, and everything else as it is."""
    import numpy as np

    from elmo_plugin import Elmo, LanguageModel

    def shown(x: Any) -> Any:
        if hasattr(x, "to_dict"):
            return shown(x.to_dict("list"))
        if isinstance(x, np.ndarray):
            return [str(x.dtype), x.shape, hashlib.sha256(x.tobytes()).hexdigest()]
        if hasattr(x, "_asdict"):
            return shown(x._asdict())
        if isinstance(x, dict):
            return {str(key): shown(value) for key, value in x.items()}
        return [shown(y) for y in x] if isinstance(x, list | tuple) else repr(x)

    elmo, model = Elmo.from_pretrained("tiny"), LanguageModel.from_pretrained("tiny")
    print(json.dumps(shown(call(elmo, model)), indent=1))


def digests(folder: Path) -> dict[str, str]:
    """The digest of each file, except the input."""
    files = [x for x in folder.rglob("*") if x.is_file() and folder / "in" not in x.parents]
    data = {
        str(x.relative_to(folder)): x.read_bytes().replace(str(folder).encode(), b"OUT")
        for x in files
    }
    return {name: hashlib.sha256(content).hexdigest() for name, content in data.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--only", default="", help="a pattern that cases contain")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--produce", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.produce:
        sys.path.insert(0, str(args.other.resolve()))
        produce(args.produce, args.only, args.kills, args.seed)
        return
    found = []
    with TemporaryDirectory() as temporary:
        for name, root in (("other", args.other), ("this", Path(__file__).parents[1])):
            folder = Path(temporary) / name
            folder.mkdir()
            options = [f"--{key}={getattr(args, key)}" for key in ("only", "kills", "seed")]
            own = [sys.executable, __file__, str(root), f"--produce={folder}", *options]
            environment = {**os.environ, "PYTHONPATH": str(root.resolve())}
            subprocess.run(own, env=environment, cwd=root, check=True)
            found.append(digests(folder))
            # Standard output names the folder of the run.
            output = {x: y for x, y in found[-1].items() if not x.endswith("/stdout")}
            killed = {x: y for x, y in output.items() if x.startswith("killed ")}
            whole = {x: found[-1].get(re.sub(r"^killed \d+ ", "", x)) for x in killed}
            wrong = [x for x in killed if killed[x] != whole[x]]
            assert not wrong, f"{root}: resumed runs differ: {wrong}"
    other, this = found
    different = sorted(x for x in other.keys() | this.keys() if other.get(x) != this.get(x))
    print(f"{len(this):,} files of {root}, {len(different):,} different")
    for name in different:
        print(f"  {name}")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
