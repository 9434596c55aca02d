"""Agreement, with invented sentences and `tiny`."""

from pathlib import Path

import pytest

from elmo_plugin import LanguageModel
from experiments import agreement

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


def test_rows(file: Path) -> None:
    """By hand for the published scores, whose fourth sentence is a tie. For a model, expected: the
    log probability of the form in `score` of the prefix with the form. `xyzzies` is unknown, so no
    sentence with it is right. Only counts are in a row, and no text."""
    model = LanguageModel.from_pretrained("tiny")
    published, own = agreement.agreement_rows(file, [("tiny", model)])
    assert "dogs" not in str((published, own))
    first, second = published["metrics"]["sources"].values()
    assert first["original"] == {"sentences": 1, "right": 1, "unknown": 0}
    assert first["nonsense"] == {"sentences": 2, "right": 1, "unknown": 0}
    assert second["original"]["right"] == 0 and second["nonsense"]["right"] == 1
    assert (first["attractors"], second["attractors"]) == (0, 1)
    right, items = [], agreement.read_items(file)
    assert items[1].prefix == SENTENCES[1][4]
    for item in items:
        tokens = [[*item.prefix.split(), form] for form in item.forms]
        a, b = (x.forward[-2] for x in model.score(tokens))
        right.append(int(a > b and "xyzzies" not in item.forms))
    assert 0 < sum(right) < 4
    first, second = own["metrics"]["sources"].values()
    assert first["original"] == {"sentences": 1, "right": right[0], "unknown": 0}
    assert first["nonsense"] == {"sentences": 2, "right": sum(right[1:3]), "unknown": 1}
    assert [second[kind]["right"] for kind in agreement.KINDS] == right[3:]
