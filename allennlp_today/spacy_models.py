"""
AllenNLP's predictors for tagging, SRL and coreference, and readers whose config names no tokenizer,
load the spaCy model `en_core_web_sm` even if no text is tokenized. A missing model is downloaded,
which offline ends in a long traceback.

With this module nothing is downloaded. If the model is missing, a blank pipeline replaces it, with
a warning. The tokens are the same, because spaCy's tokenizers are rule-based, but sentences end at
punctuation and there are no tags. Indexers and predictors that need tags raise an error when they
get text. Remove this when AllenNLP loads a model only if it is needed.
"""

import logging
from types import SimpleNamespace
from typing import Any

import spacy
from allennlp.common import util
from allennlp.common.checks import ConfigurationError
from allennlp.data.tokenizers import SpacyTokenizer, Token
from allennlp_models.structured_prediction.predictors import (
    biaffine_dependency_parser,
    constituency_parser,
    openie,
    srl,
)
from spacy.language import Language
from spacy.tokens import Token as SpacyToken

logger = logging.getLogger(__name__)

SENTENCES = "sentencizer"
DEFAULT = "en_core_web_sm"
"""The model that AllenNLP loads if a config names none."""


def load(name: str, **kwargs: Any) -> Language:
    """`spacy.load`, or a blank pipeline if AllenNLP's default model is not installed."""
    if name.startswith("blank:"):
        return blank(name.removeprefix("blank:"))
    try:
        return spacy.load(name, **kwargs)
    except OSError as error:
        if name != DEFAULT or spacy.util.is_package(name):  # installed, but damaged
            # For an `OSError`, AllenNLP downloads the model.
            raise ConfigurationError(str(error)) from error
    logger.warning(
        f"The spaCy model {name} is not installed. A blank pipeline (blank:en) splits text into "
        "the same tokens but gives no tags, and its sentences end at punctuation. To install "
        f"the model: python -m spacy download {name}"
    )
    return blank("en")


def blank(language: str) -> Language:
    pipeline = spacy.blank(language)
    pipeline.add_pipe(SENTENCES)
    return pipeline


def is_blank(pipeline: Language) -> bool:
    return not set(pipeline.pipe_names) - {SENTENCES}


_with_empty_tags = SpacyTokenizer._sanitize


def _sanitize(self: SpacyTokenizer, tokens: list[SpacyToken]) -> list[Token]:
    """AllenNLP's tokens, without the tags that a blank pipeline leaves empty."""
    sanitized = _with_empty_tags(self, tokens)
    if is_blank(self.spacy) and not self._keep_spacy_tokens:
        for token in sanitized:
            for tag in ("lemma_", "pos_", "tag_", "dep_", "ent_type_"):
                setattr(token, tag, None)
    return sanitized


class TaggingTokenizer(SpacyTokenizer):
    """AllenNLP's `SpacyTokenizer`, which raises an error if its pipeline has no tagger."""

    @property
    def spacy(self) -> Language:
        if is_blank(self._pipeline):
            raise ConfigurationError(
                f"this predictor reads part-of-speech tags, and spaCy's {self._language} gives "
                "none, or is not installed: python -m spacy download en_core_web_sm, or predict "
                "from a file of the task's own format with --use-dataset-reader"
            )
        return self._pipeline

    @spacy.setter
    def spacy(self, pipeline: Language) -> None:
        self._pipeline = pipeline


SpacyTokenizer._sanitize = _sanitize  # type: ignore[method-assign]
util.spacy = SimpleNamespace(load=load, tokens=spacy.tokens)  # type: ignore[assignment]
for module in (srl, openie, constituency_parser, biaffine_dependency_parser):
    module.SpacyTokenizer = TaggingTokenizer  # type: ignore[attr-defined]
