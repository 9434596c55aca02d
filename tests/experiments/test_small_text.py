"""The training text of `small` and `medium`."""

import sys
from collections import Counter

from experiments import small_text
from tests.conftest import write_file

FILES = "eltec/train/a eltec/train/b eltec/dev/c masc/a masc/b/c wikipedia/train/a wikipedia/dev/c"


def test_every_sentence_is_trained_on_or_held_out(tmp_path, monkeypatch):
    """A property: no sentence is lost or on both sides, Wikipedia's are trained on once and all
    others twice, and `dev` and the ends of the other files are the held-out text."""
    sources, out = tmp_path / "sources", tmp_path / "out"
    for name in FILES.split():
        lines = [f"{name} {k}" for k in range(1000)]
        write_file(sources / f"{name}.txt", "\n".join(lines) + "\n\n")
    kinds = ("eltec", "masc", "wikipedia")
    monkeypatch.setattr(small_text, "HELDOUT_TOKENS", dict.fromkeys(kinds, 10**6))
    monkeypatch.setattr(sys, "argv", ["small_text", str(sources), str(out)])
    small_text.main()
    train, heldout = (
        Counter(x for file in (out / part).glob("*.txt") for x in file.read_text().split("\n"))
        for part in ("train", "heldout")
    )
    del train[""], heldout[""]
    expected = {f"{kind}/dev/c {k}" for kind in ("eltec", "wikipedia") for k in range(1000)}
    expected |= {f"masc/{name} {k}" for name in ("a", "b/c") for k in range(950, 1000)}
    assert heldout == Counter(expected) and not heldout.keys() & train.keys()
    assert len(train) + len(heldout) == 7000
    for sentence, count in train.items():
        assert count == (1 if sentence.startswith("wikipedia") else 2)
