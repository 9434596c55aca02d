"""
AllenNLP's predictors of taggers, roles and coreference, and the readers whose config names no
tokenizer, load the spaCy model `en_core_web_sm` even where no text is tokenized. A missing model is
downloaded, and without a network that ends in a long traceback.

Here nothing is downloaded: a blank pipeline takes the place of a missing model, with a warning. Its
tokens are the same, because spaCy's tokenizers are rules and are not trained; its sentences end at
punctuation; and it gives no tags. Predictors that read tags raise an error instead, but only when
they are given text. This can go when AllenNLP loads a model where one is needed.
"""

import logging
import re
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import spacy
from allennlp.common import util
from allennlp.common.checks import ConfigurationError
from allennlp.data.tokenizers import SpacyTokenizer
from allennlp_models.structured_prediction.predictors import (
    biaffine_dependency_parser,
    constituency_parser,
    openie,
    srl,
)
from spacy.language import Language

logger = logging.getLogger(__name__)

SENTENCES = "sentencizer"
# spaCy's names of trained pipelines, such as en_core_web_sm
TRAINED = re.compile(r"(?P<language>[a-z]{2,3})_(core|dep|ent|sent)_[a-z]+_(sm|md|lg|trf)")


def load(name: str, **kwargs: Any) -> Language:
    """`spacy.load`, or a blank pipeline where spaCy's own model is not installed."""
    try:
        return spacy.load(name, **kwargs)
    except OSError as error:
        trained = TRAINED.fullmatch(name)
        if trained is None or find_spec(f"spacy.lang.{trained['language']}") is None:
            raise ConfigurationError(
                f"there is no spaCy model {name!r}: expected the name of an installed one, such as "
                'en_core_web_sm, a folder, or "blank:en"'
            ) from error
    language = trained["language"]
    logger.warning(
        f"The spaCy model {name} is not installed. A blank pipeline (blank:{language}) splits text "
        "into the same tokens but gives no tags, and its sentences end at punctuation. To have the "
        f"model: python -m spacy download {name}"
    )
    pipeline = spacy.blank(language)
    pipeline.add_pipe(SENTENCES)
    return pipeline


class TaggingTokenizer(SpacyTokenizer):
    """AllenNLP's `SpacyTokenizer`, which refuses text if its pipeline gives no tags."""

    @property
    def spacy(self) -> Language:
        if not set(self._pipeline.pipe_names) - {SENTENCES}:
            raise ConfigurationError(
                f"this predictor reads part-of-speech tags, and spaCy's {self._language} gives "
                "none, or is not installed: python -m spacy download en_core_web_sm, or predict "
                "from a file of the task's own format with --use-dataset-reader"
            )
        return self._pipeline

    @spacy.setter
    def spacy(self, pipeline: Language) -> None:
        self._pipeline = pipeline


util.spacy = SimpleNamespace(load=load, tokens=spacy.tokens)  # type: ignore[assignment]
for module in (srl, openie, constituency_parser, biaffine_dependency_parser):
    module.SpacyTokenizer = TaggingTokenizer  # type: ignore[attr-defined]
