"""
Writes docs/reference.md: the keys of a config and the names of Python from the docstrings, and the
arguments of commands from their parsers.

    python -m docs.site.reference
"""

import argparse
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from allennlp.commands.subcommand import Subcommand
from allennlp.common import Registrable

import elmo_plugin.plugin  # noqa: F401  registers the names
from docs.site.stage import ROOT, stable_names
from elmo_plugin import Elmo
from elmo_plugin.checks import shown
from elmo_plugin.commands.runner import PROGRAM
from elmo_plugin.elmo.language_model import Substitute
from elmo_plugin.elmo.scores import SentenceScores
from elmo_plugin.options import BLOCKS
from elmo_plugin.plugin.elmo_output import ElmoAtOutput
from elmo_plugin.plugin.token_embedders.elmo_token_embedder import ElmoEmbedder
from elmo_plugin.text import Sentence

PAGE = ROOT / "docs" / "reference.md"
OURS = "elmo_plugin.", "allennlp_today."
GIVEN = {"vocab", "reader", "data_path", "model", "model_parameters", "optimizer"}
GIVEN |= {"serialization_dir", "ddp_accelerator"}
"""Parameters that AllenNLP gives, and a config does not."""
KINDS = {
    "TokenEmbedder": "elmo",
    "TokenIndexer": "elmo",
    "Model": "bilm bidaf_elmo qanet_elmo naqanet_elmo bcn_elmo",
    "Seq2SeqEncoder": "elmo_output",
    "DatasetReader": "bilm",
    "DataLoader": "bilm",
    "Vocabulary": "bilm",
    "Optimizer": "fused_adam clipped_adagrad",
    "Checkpointer": "bilm",
}
"""The first kinds and names of a page, in their order; others follow as they are registered."""
OPTIONAL = r"(.*?)(, optional(?: \(default = (.*)\))?)?"
SENTENCE = re.compile(r"(?<=[.:])(?<!al\.)\s")
CODE = re.compile(r"^```python\n.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
"""Blocks of Python and code in a line."""
UNRELATED = "reference", "stability"
"""Pages that list names and do not explain them."""
EXPLAINED = {
    "elmo": "[vectors of a text](vectors.md)",
    "score": "[surprisal](surprisal.md)",
    "uses": "[change of meaning](change.md)",
    "bilm-encode": "[training](training.md#text)",
    "bilm-export": "[weights](weights.md#bilm-tfs-files)",
    "bilm-import": "[weights](weights.md#bilm-tfs-files)",
    "elmo-configs": "[tasks](tasks.md#convert-a-config-in-one-line)",
    "elmo-mix": "[tasks](tasks.md#the-mix-of-layers)",
}
"""The page of each command."""
RESULTS = SentenceScores, Substitute, Sentence
"""Classes of what calls return."""
INTRODUCTION = f"""# Reference

The keys of a config, the arguments of the commands, and the names in Python. All of them
[keep working](stability.md). `python -m docs.site.reference` writes this page from the docstrings
and from what `--help` prints.

- [Names in a config](#names-in-a-config)
- [Commands](#commands): `{PROGRAM} COMMAND`
- [Names in Python](#names-in-python)
- [What calls return](#what-calls-return)

## Names in a config

`{PROGRAM} train`, `evaluate` and `predict` find these names. So does `allennlp` with
`--include-package elmo_plugin`, or with a file `.allennlp_plugins` in the working directory, as in
this repository, or `~/.allennlp/plugins`, that has the line `elmo_plugin`; with such a file,
`allennlp` has the commands below too. In Python, `import elmo_plugin.plugin` registers the names.

A path may also be `pretrained://NAME` (the archive of an installed model), `docs://train` or
`docs://heldout` (Python's documentation and docstrings), or
[`task://CONFIG#KEY`](finetuning.md#the-text-of-a-task).
"""
COMMANDS = f"""## Commands

`{PROGRAM} COMMAND --help` prints the same. Only `bilm-import`, and texts `docs://…` and
`task://…`, need AllenNLP. If it is installed, its own commands are there too, such as
`{PROGRAM} train`. They compute the same as those of `allennlp`, but

- print an error in one line, and no warnings of AllenNLP's imports; `allennlp` prints a traceback;
- use as many threads as the CPU quota of a container. `OMP_NUM_THREADS` sets another number.

Two of AllenNLP's commands fail: `diff` for a model with a biLM, because it expects that every value
is floating-point, and `push-to-hf`, which current versions of huggingface_hub do not accept.
"""


class Parameter(NamedTuple):
    """What a docstring says of a parameter; `kind` is its type, with `optional` and a default."""

    name: str
    kind: str
    text: str


def main() -> None:
    PAGE.write_text(page(), "utf-8")


def page() -> str:
    parts = [INTRODUCTION, *config_names(), *commands(), *python_names(), *results()]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def config_names() -> Iterator[str]:
    """A section for each registered name, and one for the blocks of a biLM."""
    for kind, name, cls, constructor in registered():
        yield f"### `{name}`, {kind}\n\n{summary(cls)}"
        if cls.__module__.startswith(OURS[0]):  # other keys are AllenNLP's
            yield from keys(x for x in parameters(constructor) if x.name not in GIVEN)
        if (kind, name) == ("Model", "bilm"):
            for block, options in BLOCKS.items():
                yield f"#### The block `{block}`"
                yield from keys(parameters(options))


def registered() -> list[tuple[str, str, type, Any]]:
    """The kind, the name, the class and the constructor of each registered name but commands."""
    found = [
        (kind.__name__, name, cls, getattr(cls, constructor) if constructor else cls)
        for kind, names in Registrable._registry.items()
        if kind is not Subcommand
        for name, (cls, constructor) in names.items()
        if cls.__module__.startswith(OURS)
    ]
    wanted = [(kind, name) for kind, names in KINDS.items() for name in names.split()]
    return sorted(found, key=lambda x: wanted.index(x[:2]) if x[:2] in wanted else len(wanted))


def parameters(described: Any) -> list[Parameter]:
    """
    The parameters of a class or a function: those of its docstring, in place of `kwargs` those of
    `Elmo` or `ElmoAtOutput` that it passes on, and those of its signature if it describes none.
    """
    text = section(described, "Parameters")
    if not text:
        base = isinstance(described, type) and issubclass(described, ElmoAtOutput)
        if base and described is not ElmoAtOutput:
            return parameters(ElmoAtOutput)
        return [Parameter(*x) for x in of_signature(described)]
    found: list[Parameter] = []
    for entry in entries(text):
        if entry.name != "kwargs":
            found.append(entry)
        elif described is ElmoEmbedder:
            passed = set(re.findall(r"`(\w+)`", entry.text.partition(":")[0]))
            found += [x for x in parameters(Elmo) if x.name in passed]
        else:
            found.append(Parameter("others", ", optional", entry.text))
    return found


def of_signature(described: Any) -> Iterator[tuple[str, str, str]]:
    """The parameters of a class whose docstring describes none."""
    for name, parameter in inspect.signature(described).parameters.items():
        if name not in ("args", "kwargs"):
            is_required = parameter.default is inspect.Parameter.empty
            default = f", optional (default = `{shown(parameter.default)}`)"
            yield name, "" if is_required else default, ""


def keys(found: Iterable[Parameter]) -> Iterator[str]:
    """A table of the keys of a config."""
    return table("key", [x._replace(kind=given(x.kind)) for x in found])


def given(kind: str) -> str:
    """The type of a parameter as a table shows it."""
    kind, is_optional, default = re.fullmatch(OPTIONAL, kind).groups()
    kind += (f", default {default}" if default else "") if is_optional else ", required"
    return kind.removeprefix(", ")


def table(head: str, found: list[Parameter]) -> Iterator[str]:
    if found:
        has_text = any(x.text for x in found)
        rows = [f"| {head} | type |{' meaning |' * has_text}", f"|---|---|{'---|' * has_text}"]
        for name, kind, text in found:
            cells = [f"`{name}`".replace(", ", "`, `"), kind, *[text] * has_text]
            rows.append("| " + " | ".join(x.replace("|", "\\|") for x in cells) + " |")
        yield "\n".join(rows)


def summary(described: Any) -> str:
    """
    The text of a docstring before its sections and its first list, without the sentence that says
    how the class is registered.
    """
    text = (inspect.getdoc(described) or "").partition("\n# ")[0]
    text = re.sub(r"\n\nRegistered as .*?\.(?=\s|$)", "\n\n", text, flags=re.DOTALL)
    before, *others = re.split(r"\n\n[*-] ", text, maxsplit=1)
    paragraphs = [x.strip() for x in before.split("\n\n") if x.strip()]
    return "\n\n".join(paragraphs[:-1] if others else paragraphs)


def commands() -> Iterator[str]:
    """A section for each command."""
    yield COMMANDS
    for name, (cls, _) in sorted(Registrable._registry[Subcommand].items()):
        if not cls.__module__.startswith(OURS):
            continue
        parser = argparse.ArgumentParser(prog=f"{PROGRAM} {name}", add_help=False)
        command: Any = cls
        command.module.add_arguments(parser)
        description = inspect.cleandoc(command.module.DESCRIPTION)
        yield f"### `{name}`\n\n{description} See {EXPLAINED[name]}."
        rows = ["| argument | meaning |", "|---|---|"]
        rows += [f"| {spelled(x)} | {meaning(x)} |" for x in parser._actions]
        yield "\n".join(rows)


def spelled(action: argparse.Action) -> str:
    """An argument as one writes it."""
    several = " ..." if action.nargs == "+" else ""
    if not action.option_strings:
        return f"`{action.metavar or action.dest}{several}`"
    value = "" if action.nargs == 0 else f"{action.metavar or action.dest.upper()}{several}"
    if action.choices:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    return f"`{' '.join([*action.option_strings, *[value] * bool(value)])}`"


def meaning(action: argparse.Action) -> str:
    text = (action.help or "").replace("%%", "%").replace("|", "\\|")
    has_default = action.default not in (None, False, argparse.SUPPRESS) and action.nargs != 0
    return f"{text} (default: `{action.default}`)" if has_default else text


def python_names() -> Iterator[str]:
    """A table for each module of `docs/stability.md`."""
    yield "## Names in Python"
    for module, names in stable_names().items():
        names = [name for name in names if name != "__version__"]
        rows = [f"### `{module}`\n", "| name | what it is | page |", "|---|---|---|"]
        loaded = __import__(module, fromlist=names)
        for name in names:
            text = " ".join(summary(getattr(loaded, name)).partition("\n\n")[0].split())
            sentence = re.sub(":$", ".", SENTENCE.split(text)[0])
            rows.append(f"| `{name}` | {sentence} | {where(name)} |")
        yield "\n".join(rows)


def results() -> Iterator[str]:
    """What public calls return, as their docstrings say, and the fields of their classes."""
    rows = ["## What calls return\n", "| call | type | value |", "|---|---|---|"]
    for module, names in stable_names().items():
        loaded = __import__(module, fromlist=names)
        for name in names:
            public = getattr(loaded, name)
            methods = vars(public) if isinstance(public, type) else {}
            calls = {name: public} | {f"{name}.{x}": method for x, method in methods.items()}
            for call, described in calls.items():
                kind, _, text = section(described, "Returns").partition("\n")
                if kind:
                    rows.append(f"| `{call}` | {kind} | {' '.join(text.split())} |")
    yield "\n".join(rows)
    for cls in RESULTS:
        text, _, described = (inspect.getdoc(cls) or "").partition("\n\n")
        yield f"### `{cls.__name__}`\n\n{text}"
        fields = [
            x._replace(kind=x.kind.replace(", optional", " or `None`")) for x in entries(described)
        ]
        for name, member in vars(cls).items():
            if isinstance(member, property) and not name.startswith("_"):
                kind = inspect.formatannotation(inspect.signature(member.fget).return_annotation)
                fields.append(
                    Parameter(name, f"`{kind}`", " ".join(inspect.getdoc(member).split()))
                )
        yield from table("field", fields)


def section(described: Any, name: str) -> str:
    """The text of a section of a docstring, empty if there is none."""
    text = inspect.getdoc(described) or ""
    found = re.search(rf"^# {name}\n\n(.*?)(?=^# |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def entries(text: str) -> list[Parameter]:
    """The entries of a section: a line `name : type`, and the indented lines after it."""
    found = []
    for entry in re.split(r"\n(?=\S)", text.strip()):
        head, _, body = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        found.append(Parameter(names, kind, " ".join(body.split())))
    return found


def where(name: str) -> str:
    """A link to the page whose code has a name most often. In prose, it may be a common word."""
    pages = [x for x in (ROOT / "docs").glob("*.md") if x.stem not in UNRELATED]
    code = {x: "\n".join(CODE.findall(x.read_text("utf-8"))) for x in sorted(pages)}
    counts = {x: len(re.findall(rf"\b{name}\b", of_page)) for x, of_page in code.items()}
    best = max(counts, key=lambda x: counts[x])
    return f"[{title(best)}]({best.name})" if counts[best] else ""


def title(file: Path) -> str:
    return file.read_text("utf-8").partition("\n")[0].removeprefix("# ")


if __name__ == "__main__":
    main()
