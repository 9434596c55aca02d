"""From text to windows: sentences, lines, characters, and encoded corpora and their cache."""

from typing import TYPE_CHECKING

from elmo_plugin.lazy import lazily
from elmo_plugin.text.raw_text import running_text, split_sentences, split_tokens
from elmo_plugin.text.sentence import Sentence

if TYPE_CHECKING:
    from elmo_plugin.text.lines import read_sentences

__all__ = ["Sentence", "read_sentences", "running_text", "split_sentences", "split_tokens"]
__getattr__ = lazily(__name__, {"read_sentences": ".lines"})
