"""Agreement, with invented sentences and `tiny`."""

from pathlib import Path

import numpy as np
import pytest

from elmo_plugin import LanguageModel
from experiments import agreement
from experiments.rows import save_rows

HEAD = "pattern constr_id sent_id correct_number form class type prefix n_attr sent best"
SENTENCES = [
    ("L__NOUN_VERB_VERB", "0", "0", "original", "The dogs that bark", "0", -1.0, -2.0),
    ("L__NOUN_VERB_VERB", "0", "1", "generated", "The \" dogs that see", "0", -3.0, -2.0),
    ("L__NOUN_VERB_VERB", "0", "2", "generated", "The dogs that eat", "0", -1.0, -2.0),
    ("R__VERB_NOUN_CCONJ_VERB", "0", "0", "original", "It sees dogs and", "1", -2.0, -2.0),
    ("R__VERB_NOUN_CCONJ_VERB", "0", "3", "generated", "It eats dogs and", "1", -1.0, -2.0),
]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Five sentences of two original ones, the wrong form of each first. `xyzzies` is unknown."""
    lines = [HEAD.replace(" ", "\t")]
    for pattern, number, sentence, kind, prefix, attractors, right, wrong in SENTENCES:
        quoted = '"' + prefix.replace('"', '""') + '"' if '"' in prefix else prefix
        forms = ("xyzzies" if sentence == "2" else "is", "are")
        forms = forms if pattern[0] == "L" else forms[::-1]
        for form, name, score in zip(forms, ("wrong", "correct"), (wrong, right)):
            facts = [pattern, number, sentence, "plur", form, name, kind, quoted]
            lines.append("\t".join([*facts, attractors, "unused", str(score)]))
    (tmp_path / "English.tab").write_text("\n".join(lines) + "\n")
    return tmp_path / "English.tab"


def test_items(file: Path) -> None:
    """By hand, from the lines above, whose quotation marks are doubled."""
    items = agreement.read_items(file)
    assert items[1] == agreement.Item(
        "L__NOUN_VERB_VERB 0",
        "a verb agrees with its noun",
        0,
        "nonsense",
        'The " dogs that see',
        ("are", "is"),
        (-3.0, -2.0),
    )
    assert [x.kind for x in items] == ["original", *["nonsense"] * 2, "original", "nonsense"]


def test_rows(file: Path) -> None:
    """By hand for the published scores, whose fourth sentence is a tie. For a model, expected: the
    log probability of the form in `score` of the prefix with the form. `xyzzies` is unknown, so no
    sentence with it is right."""
    model = LanguageModel.from_pretrained("tiny")
    published, own = agreement.agreement_rows(file, [("tiny", model)])
    first, second = published["metrics"]["sources"].values()
    assert first["original"] == {"sentences": 1, "right": 1, "unknown": 0}
    assert first["nonsense"] == {"sentences": 2, "right": 1, "unknown": 0}
    assert second["original"]["right"] == 0 and second["nonsense"]["right"] == 1
    assert (first["attractors"], second["attractors"]) == (0, 1)
    right = []
    for item in agreement.read_items(file):
        tokens = [[*item.prefix.split(), form] for form in item.forms]
        a, b = (x.forward[-2] for x in model.score(tokens))
        right.append(int(a > b and "xyzzies" not in item.forms))
    assert 0 < sum(right) < 4
    first, second = own["metrics"]["sources"].values()
    assert first["original"] == {"sentences": 1, "right": right[0], "unknown": 0}
    assert first["nonsense"] == {"sentences": 2, "right": sum(right[1:3]), "unknown": 1}
    assert [second[kind]["right"] for kind in agreement.KINDS] == right[3:]


def made_up(bilm: str | None, right: list[tuple[int, int]]) -> dict:
    """The row of a model with original sentences of nine nonsense sentences each."""
    sources = {}
    for k, (original, nonsense) in enumerate(right):
        facts = {"construction": "ab"[k % 2], "attractors": int(k == 0)}
        facts["original"] = {"sentences": 1, "right": original, "unknown": 0}
        facts["nonsense"] = {"sentences": 9, "right": nonsense, "unknown": k}
        sources[str(k)] = facts
    return {"bilm": bilm, "settings": {"model": bilm or "LSTM"}, "metrics": {"sources": sources}}


def test_intervals() -> None:
    """Expected: of differences, that of resampling the differences by original sentence, so that
    what all have in common has no width; of nonsense sentences, wider than if they were
    independent where those of an original sentence are alike."""
    random = np.random.default_rng(0)
    right = [(int(random.random() < 0.7), int(9 * (random.random() < 0.7))) for _ in range(40)]
    a = made_up(None, right)
    b = made_up("b", [(x, max(y - 1, 0) + (y == 0)) for x, y in right])
    c = made_up("c", [(x, y) for x, y in right])
    assert agreement.difference(c, a, "nonsense") == "+0.0 (+0.0 to +0.0)"
    moved = np.array([-1 if y else 1 for _, y in right]) / 9 * 100
    assert agreement.difference(b, a, "nonsense").startswith(f"{moved.mean():+.1f} (")
    low, high = (float(x) for x in agreement.share(a, "nonsense").split("(")[1][:-1].split(" to "))
    p = sum(y for _, y in right) / 360
    assert high - low == pytest.approx(2 * 196 * np.sqrt(p * (1 - p) / 40), rel=0.1)


def test_sections(tmp_path: Path) -> None:
    """By hand: counts of two original sentences. Wilson's interval of 1 of 2 is 9.5 to 90.5. The
    nonsense sentences of one original sentence have no interval. The published row is the first."""
    rows = [made_up("tiny", [(1, 9), (1, 9)]), made_up(None, [(1, 9), (0, 0)])]
    save_rows(tmp_path / agreement.FILE.name, rows)
    found = agreement.sections(tmp_path)
    assert "| 2 original sentences | 18 nonsense sentences |" in found["Agreement"]
    assert "| LSTM | 50.0 (9.5 to 90.5) | 50.0 (0.0 to 100.0) |  |  |" in found["Agreement"]
    assert (
        "| `tiny` | 100.0 (34.2 to 100.0) | 100.0 (100.0 to 100.0) | +50.0 (" in found["Agreement"]
    )
    parts = found["Agreement by construction"]
    assert "| a | nonsense | 9 | 100.0 | 100.0 |" in parts
    assert "| attractors: 0 | nonsense | 9 | 100.0 | 0.0 |" in parts
    assert agreement.sections(tmp_path / "none") == {}


def test_no_text_is_saved(file: Path) -> None:
    """Only counts by the number of the original sentence are in a row."""
    assert "dogs" not in str(agreement.agreement_rows(file, []))
