import sys
from collections import Counter

from experiments import small_text


def test_every_sentence_is_trained_on_or_held_out(tmp_path, monkeypatch):
    """The property that is tested is that no sentence is lost or on both sides, that Wikipedia's
    are trained on once and all others twice, and that `dev` and the ends of the other files are the
    held-out text."""
    sources, out = tmp_path / "sources", tmp_path / "out"
    for kind, files in {
        "eltec": ("train/a", "train/b", "dev/c"),
        "masc": ("a", "b/c"),
        "wikipedia": ("train/a", "dev/c"),
    }.items():
        for name in files:
            file = sources / kind / f"{name}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            lines = [f"{kind} {name} {k}" for k in range(1000)]
            file.write_text("\n".join(lines) + "\n\n")
    monkeypatch.setattr(
        small_text, "HELDOUT_TOKENS", dict.fromkeys(("eltec", "masc", "wikipedia"), 10**6)
    )
    monkeypatch.setattr(sys, "argv", ["small_text", str(sources), str(out)])
    small_text.main()

    found = {
        part: Counter(
            line
            for file in (out / part).glob("*.txt")
            for line in file.read_text().split("\n")
            if line
        )
        for part in ("train", "heldout")
    }
    heldout = set(found["heldout"])
    assert heldout == {
        f"{kind} dev/c {k}" for kind in ("eltec", "wikipedia") for k in range(1000)
    } | {f"masc {name} {k}" for name in ("a", "b/c") for k in range(950, 1000)}
    assert set(found["heldout"].values()) == {1}
    assert not heldout & set(found["train"])
    assert len(found["train"]) + len(heldout) == 7000
    for sentence, count in found["train"].items():
        assert count == (1 if sentence.startswith("wikipedia") else 2)
