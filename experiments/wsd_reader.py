"""Reads the XML of the unified evaluation framework for WSD (Raganato et al. 2017)."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional
from xml.etree import ElementTree

from allennlp.data import DatasetReader, Instance, Token, TokenIndexer
from allennlp.data.fields import ListField, MetadataField, SpanField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_plugin.checks import InputError

DATA, KEYS = ".data.xml", ".gold.key.txt"


class Target(NamedTuple):
    """
    A word or a phrase to disambiguate.

    lemma : `str`
        Lemma in lower case, with `_` between the words of a phrase.
    pos : `str`
        `NOUN`, `VERB`, `ADJ` or `ADV`.
    start : `int`
        Index of its first token.
    end : `int`
        Index after its last token.
    senses : `List[str]`
        Correct WordNet sense keys, at least one.
    """

    lemma: str
    pos: str
    start: int
    end: int
    senses: List[str]


@DatasetReader.register("wsd")
class WsdReader(DatasetReader):
    """
    Reads sentences with the senses of some of their words, from a file `*.data.xml` and the file
    `*.gold.key.txt` next to it. Sentences without such a word are skipped. Phrases, which are one
    word in the XML, are split at white space.

    Registered as a `DatasetReader` with name "wsd".

    # Parameters

    token_indexers : `Dict[str, TokenIndexer]`, optional
        By default the indexer `single_id` under the name `tokens`.

    # Returns

    Instances with the fields `tokens`, a `TextField`; `spans`, a `ListField` of a `SpanField` for
    each target; and `metadata` with the `words`, the `targets` and the number of the `document`.

    # Raises

    `InputError`
        If the file is not in this format, or a target has no sense key.
    """

    def __init__(
        self, token_indexers: Optional[Dict[str, TokenIndexer]] = None, **kwargs: Any
    ) -> None:
        super().__init__(
            manual_distributed_sharding=True, manual_multiprocess_sharding=True, **kwargs
        )
        self._token_indexers = token_indexers or {"tokens": SingleIdTokenIndexer()}

    def _read(self, file_path: Any) -> Iterable[Instance]:
        for sentence in self.shard_iterable(_sentences(Path(file_path))):
            yield self.text_to_instance(*sentence)

    def text_to_instance(  # type: ignore[override]
        self, words: List[str], targets: List[Target], document: int = 0
    ) -> Instance:
        tokens = TextField([Token(word) for word in words])
        spans = [SpanField(target.start, target.end - 1, tokens) for target in targets]
        metadata = MetadataField({"words": words, "targets": targets, "document": document})
        return Instance({"tokens": tokens, "spans": ListField(spans), "metadata": metadata})  # type: ignore[arg-type]

    def apply_token_indexers(self, instance: Instance) -> None:
        instance["tokens"].token_indexers = self._token_indexers  # type: ignore[attr-defined]


def _sentences(file: Path) -> Iterator[tuple[list[str], list[Target], int]]:
    if not file.name.endswith(DATA):
        raise InputError(f"{file}: expected a file *{DATA}, found another name")
    senses = _read_senses(file.with_name(file.name.removesuffix(DATA) + KEYS))
    try:
        document = 0
        for _, element in ElementTree.iterparse(file):
            document += element.tag == "text"  # its end
            if element.tag == "sentence":
                words, targets = _read_sentence(element, senses, file)
                element.clear()  # so that memory does not grow with the file
                if targets:
                    yield words, targets, document
    except ElementTree.ParseError as error:
        raise InputError(f"{file}: expected XML, found an error: {error}") from None


def _read_senses(file: Path) -> dict[str, list[str]]:
    senses = {}
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
        name, *keys = line.split()
        if not keys or not all(re.fullmatch(r".+%[1-5]:\d\d:\d\d:.*:.*", key) for key in keys):
            raise InputError(
                f"{file}, line {number}: expected a name and sense keys, found {line!r}"
            )
        senses[name] = keys
    return senses


def _read_sentence(
    sentence: ElementTree.Element, senses: dict[str, list[str]], file: Path
) -> tuple[list[str], list[Target]]:
    words: list[str] = []
    targets = []
    for element in sentence:
        start = len(words)
        words.extend((element.text or "").split())
        if element.tag == "instance":
            name, lemma, pos = (element.get(key, "") for key in ("id", "lemma", "pos"))
            if name not in senses or start == len(words):
                raise InputError(
                    f"{file}: instance {name!r}: expected a word, and its senses in *{KEYS}, "
                    "found none"
                )
            targets.append(Target(lemma.lower(), pos, start, len(words), senses[name]))
    return words, targets
