"""What the plugin adds to the patches of AllenNLP, and that they serve a model with ELMo."""

import elmo_plugin.plugin  # noqa: F401
from allennlp_today.callbacks import WITHOUT_HOOKS
from allennlp_today.data import IMPORTED_BY_WORKERS
from elmo_plugin.modules import BiLM
from tests.allennlp_today.test_models import check_tags, tagger


def test_what_the_patches_know_of_the_plugin() -> None:
    """Hooks leave a biLM out (tests/allennlp_today/test_callbacks.py), and the workers of a data
    loader import the plugin once, so that they have its patches and its registered names."""
    assert BiLM in WITHOUT_HOOKS
    assert IMPORTED_BY_WORKERS == ["elmo_plugin.plugin"]


def test_a_tagger_with_elmo(bilm_files) -> None:
    """The expected outputs are those of each sentence by itself, which has no padding."""
    options, weights = bilm_files
    embedder = {"type": "elmo", "options_file": options, "weight_file": weights}
    check_tags(tagger({"type": "elmo"}, embedder))
