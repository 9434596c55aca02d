from collections.abc import Sequence
from pathlib import Path

import pytest

from elmo_plugin.text import encoding
from elmo_plugin.text.corpus import EncodedCorpus


def encode_in_shards(files: Sequence[Path], folder: Path, shard_tokens: int) -> EncodedCorpus:
    """Encode text in shards of at most `shard_tokens`, many fewer than usual."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "SHARD_TOKENS", shard_tokens)
        return encoding.encode_corpus(files, folder)
