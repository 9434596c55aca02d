"""Programs of `torch.export`. The expected vectors are those of `embed`, within 1e-5."""

import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from tests.compare import assert_close
from tests.docs.pages import ROOT, blocks

BATCHES = [
    ["A"],
    ["He threw the stick to the dog .", "Nobody saw it — naïve 🙂 .", "A", "The dog ?"],
    ["<S> is a word </S> too", "", "A " + "very" * 30 + " long one"],
    [" ".join(f"w{i % 7}" for i in range(70)), "A dog"],
]
"""Other sizes and lengths than those of the batch that a program is made from."""

ONLY_TORCH = """
import sys

sys.modules.update(dict.fromkeys(["elmo_plugin", "elmo_plugin_imports", "allennlp"]))
import numpy as np
import torch

batches = np.load("ids.npz")
vectors = torch.export.load("elmo.pt2").module()
with torch.inference_mode():
    np.savez("found.npz", **{k: vectors(torch.from_numpy(batches[k])).numpy() for k in batches})
"""


def character_ids() -> Callable[[list[list[str]]], np.ndarray]:
    """The function of docs/deployment.md."""
    [block] = [x for x in blocks(ROOT / "docs" / "deployment.md") if x.file == "character_ids.py"]
    names: dict = {}
    exec(compile(block.code, str(block), "exec"), names)
    return names["character_ids"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("initial_state, layer", [("zero", "mix"), ("warm", "all")])
def test_a_process_with_torch_alone(bilm_files, tmp_path, initial_state, layer):
    """Each sentence has its own vectors in batches of any size and length, and zeros at padding.
    The process cannot import this package, and gets its ids from the function in
    docs/deployment.md."""
    mix = {"scalar_mix_parameters": [0.3, -0.2, 0.5], "do_layer_norm": True}
    elmo = Elmo.from_files(*bilm_files, initial_state=initial_state, **mix)
    for part in elmo.bilm.bilstm.layers:
        part.cell_clip, part.proj_clip = 0.3, 0.2
    torch.export.save(elmo.export(layer), tmp_path / "elmo.pt2")
    ids = [character_ids()([s.split() for s in batch]) for batch in BATCHES]
    np.savez(tmp_path / "ids.npz", **{str(k): x for k, x in enumerate(ids)})
    environment = {name: x for name, x in os.environ.items() if name != "PYTHONPATH"}
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    subprocess.run([sys.executable, "-c", ONLY_TORCH], cwd=tmp_path, env=environment, check=True)
    found = np.load(tmp_path / "found.npz")
    for k, batch in enumerate(BATCHES):
        expected = elmo.embed([sentence.split() for sentence in batch], layer)
        for vectors, sentence in zip(np.moveaxis(found[str(k)], -3, 0), expected, strict=True):
            n = sentence.shape[-2]
            np.testing.assert_allclose(vectors[..., :n, :], sentence, atol=1e-5, rtol=0)
            assert not vectors[..., n:, :].any()


def test_documented_character_ids(bilm_files):
    """The expected ids are those that `embed` reads, also for other lengths of tokens."""
    sentences = [["\ud800x", "naïve", "🙂" * 20, "</S>"], ["<S>"], [], ["ab"]]
    found = character_ids()(sentences)
    assert found.dtype == np.int64
    assert np.array_equal(found, Elmo.from_files(*bilm_files).characters(sentences).numpy())


@pytest.mark.usefixtures("native_bf16")
@pytest.mark.parametrize("as_embed", [True, False])
@pytest.mark.parametrize(
    "how, message",
    [
        ({"initial_state": "carry"}, "initial_state zero or warm, found carry"),
        ({"precision": "bf16"}, "precision fp32, found bf16"),
    ],
)
def test_what_no_program_has(bilm_files, how, message, as_embed):
    """The error is one line, whether `Elmo.export` or PyTorch's function is called."""
    elmo = Elmo.from_files(*bilm_files, **how)
    ids = elmo.characters([["a", "b"]] * 2)
    with pytest.raises(InputError, match=f"^torch.export: expected {message}.*$"):
        elmo.export() if as_embed else torch.export.export(elmo, (ids,))
    assert len(elmo.embed("A dog")) == 2  # nothing of the failed export is left
    with pytest.raises(InputError, match=r"^expected torch.export, as by Elmo.export, found .*$"):
        torch.jit.trace(elmo, (ids,))
    with pytest.raises(ValueError, match=r"layer: expected .* below 3, found 3$"):
        elmo.export(3)
    with pytest.raises(RuntimeError, match="the biLM's weights were never loaded"):
        Elmo.from_options(elmo.bilm.options).export()


@pytest.mark.parametrize("trained", [False, True])
def test_torch_compile(bilm_files, trained):
    """A compiled model with ELMo inside has the vectors and the gradients of the same model as it
    is, for batches of several shapes, and so has `embed`."""
    elmo = Elmo.from_files(*bilm_files, do_layer_norm=True, requires_grad=trained)
    linear = torch.nn.Linear(elmo.output_dim, 3)

    def model(tokens):
        return linear(elmo(tokens)["elmo_representations"][0])

    compiled = torch.compile(model, backend="eager")
    parameters = [p for p in (*elmo.parameters(), *linear.parameters()) if p.requires_grad]
    assert trained == (len(parameters) > 4 + 2)  # of the mix and of the linear layer
    for batch in BATCHES[:2]:
        ids = elmo.characters([sentence.split() for sentence in batch])
        results = [compiled(ids), model(ids)]
        gradients = [torch.autograd.grad(y.square().sum(), parameters) for y in results]
        torch.testing.assert_close(*results)
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)
    embed = torch.compile(elmo.embed, backend="eager")
    assert_close(embed("He threw it"), elmo.embed("He threw it"), atol=1e-6, what="vectors")
