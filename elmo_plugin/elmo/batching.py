"""Which sentences to read together, where the choice is ours."""

from collections.abc import Iterator, Sequence

MAX_TOKENS = 2048
"""What 64 sentences of ordinary length come to: enough rows for a matrix product to be
efficient."""


def batches_by_length(lengths: Sequence[int], max_tokens: int = MAX_TOKENS) -> Iterator[list[int]]:
    """
    Sentences of about the same length, so that little is padding, and not too many tokens at once,
    so that memory is bounded.

    # Parameters

    lengths : `Sequence[int]`
        Of each sentence, in tokens.
    max_tokens : `int`
        Of a batch, padding and boundaries included; a longer sentence is a batch by itself.

    # Returns

    `Iterator[list[int]]`
        The sentences' places in `lengths`, each once, the longest first.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        # The first is the longest, and what the others are padded to.
        width = lengths[batch[0] if batch else place] + 2
        if batch and (len(batch) + 1) * width > max_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
