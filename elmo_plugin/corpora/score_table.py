"""The scores of sentences as tables."""

from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

from elmo_plugin.checks import fail, needed
from elmo_plugin.elmo.scores import BY_DIRECTION, SENTENCE_IN_ROW, SentenceScores, scores_in
from elmo_plugin.files.local_path import local_path
from elmo_plugin.text.forms import named_rows
from elmo_plugin.text.tables import read_table


def column_names(entropy: bool, raw: bool, rank: bool) -> list[str]:
    """The columns of a table; see `score_columns`."""
    names = ["sentence", "position", "token", "in_vocabulary", "forward", "backward"]
    names += ["forward_entropy", "backward_entropy"] if entropy else []
    names += ["start", "end", "word", SENTENCE_IN_ROW] if raw else []
    return [*names, "surprisal", *(["forward_rank", "backward_rank"] if rank else [])]


def score_columns(
    scores: SentenceScores | Iterable[SentenceScores], numbers: Iterable[Any] | None = None
) -> dict[str, list[Any]]:
    """
    Scores as the columns of a table with one row per word, without the end and the beginning:
    `pandas.DataFrame(score_columns(scores))`. `numbers`: those of the sentences, or other labels,
    by default counted from 0, as the `position` of a word in its sentence is. `surprisal` is in
    bits. Of raw text, a string has one number; `start` and `end` are the token's span in it, and
    `word` and `sentence_in_row` the numbers of the word and of the sentence that it is part of.
    Raises an `InputError` if not each has a number of its own, or if the scores differ in their
    `base` or in which fields they have.
    """
    some = scores_in(scores)
    expected = f"{len(some)} different labels, as after reset_index(drop=True) of a DataFrame"
    given = range(len(some)) if numbers is None else numbers
    labels = [label for _, label in named_rows(given, f"numbers: expected {expected}")]
    if not len(some) == len(labels) == len({x for x in labels if isinstance(x, Hashable)}):
        fail("numbers", expected, labels)
    optional = "forward_entropy", "spans", "forward_rank"
    kinds = {(x.base, *(getattr(x, name) is not None for name in optional)) for x in some}
    if len(kinds) > 1:
        fail("scores", f"the same base, and {', '.join(optional)} in all or none", kinds)
    _, *has = next(iter(kinds), (2, *[False] * len(optional)))
    names = column_names(*map(bool, has))
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for number, x in zip(labels, some):
        n = len(x.tokens)
        own: dict[str, Any] = {"sentence": [number] * n, "position": range(n), "token": x.tokens}
        own |= {"in_vocabulary": x.in_vocabulary.tolist(), "surprisal": x.surprisal.tolist()}
        for name in BY_DIRECTION:
            if (numbers := getattr(x, name)) is not None:
                words = slice(1, None) if name.startswith("backward") else slice(-1)
                own[name] = numbers[words].tolist()
        if x.spans is not None:
            own |= {"start": [start for start, _ in x.spans], "end": [end for _, end in x.spans]}
            own |= {"word": x.words, SENTENCE_IN_ROW: x.sentence}
        for name, column in columns.items():
            column += own[name]
    return columns


def sentence_columns(scores: Iterable[SentenceScores], numbers: list[int]) -> dict[str, list[Any]]:
    """
    Scores as the columns of a table with one row per sentence, whose values are arrays: the fields
    of the scores and `surprisal`.
    """
    fields = [dict(x.fields()) for x in scores]
    return {"sentence": numbers} | {name: [x[name] for x in fields] for name in fields[0]}


def read_scores(path: str | Path) -> Any:
    """
    Read a CSV table of the command `score` or of `score_columns` as a pandas DataFrame. Each token
    is a string as it was, also *NA*, *None* and *007*, and empty fields are missing numbers. Raises
    errors as `read_table`, and an `InputError` if pandas is not installed.
    """
    file = Path(local_path(path, "a table of scores"))
    tokens = [token for _, token in read_table(file, str(path), ["token"])]
    return needed("pandas").read_csv(file, keep_default_na=False, na_values="").assign(token=tokens)
