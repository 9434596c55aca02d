"""Batches of sentences of similar lengths."""

from collections.abc import Iterator, Sequence

MAX_TOKENS = 2048
"""64 sentences of ordinary length, which are enough rows for efficient matrix products."""


def batches_by_length(lengths: Sequence[int], max_tokens: int = MAX_TOKENS) -> Iterator[list[int]]:
    """
    Divides sentences into batches. The sentences of a batch have similar lengths, for little
    padding, and the number of its tokens, with padding and boundaries, is at most `max_tokens`, as
    a bound on memory. A longer sentence is a batch by itself.

    `lengths` are sentence lengths, in tokens. Yields for each batch the indices of its sentences in
    `lengths`, starting with the longest.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        # The first sentence of a batch is the longest, and the others are padded to its length.
        width = lengths[batch[0] if batch else place] + 2
        if batch and (len(batch) + 1) * width > max_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
