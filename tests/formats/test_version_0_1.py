"""Archives that version 0.1 wrote load. `version_0_1/` has a biLM and a tagger with it, of the
smallest sizes, and the expected vectors are those that this version printed for "the dog ran"."""

from pathlib import Path
from typing import Any

import pytest
from allennlp.models.archival import load_archive

from elmo_plugin import Elmo
from elmo_plugin.formats.find import find_bilm
from tests.compare import assert_close

FOLDER = Path(__file__).parent / "version_0_1"
SENTENCE = "the dog ran"
BILM = [
    [-0.39275750517845154, -0.30513736605644226, -0.1391790211200714, -0.5179708003997803],
    [-0.39681053161621094, -0.2879168391227722, -0.14286550879478455, -0.5069177746772766],
    [-0.3631930351257324, -0.3347788155078888, -0.11076405644416809, -0.5314681529998779],
]
TASK = [
    [-0.10728693008422852, -0.17223484814167023, -0.08409783989191055, -0.17244715988636017],
    [-0.11039195954799652, -0.16989009082317352, -0.08275221288204193, -0.17130444943904877],
    [-0.10585346817970276, -0.17766325175762177, -0.07248765230178833, -0.1804046779870987],
]


def of_language_model(path: Path) -> Elmo:
    assert find_bilm(path, with_softmax=True).softmax.weight.shape == (5, 2)
    return Elmo(load_archive(path).model.bilm)


def of_tagger(path: Path) -> Elmo:
    return load_archive(path).model.text_field_embedder.token_embedder_elmo._elmo


@pytest.mark.parametrize(
    ("name", "load", "expected"),
    [
        ("bilm", Elmo.from_archive, BILM),
        ("bilm", of_language_model, BILM),
        ("task", Elmo.from_archive, TASK),
        ("task", of_tagger, TASK),
    ],
)
def test_an_archive(name: str, load: Any, expected: list[list[float]]) -> None:
    """Of the tagger, the biLM's archive is not here; it has the mix with the weights it learned."""
    elmo = load(FOLDER / f"{name}.tar.gz").eval()
    assert_close(elmo.embed(SENTENCE), expected, what="vectors", atol=1e-6)
