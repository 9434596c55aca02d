"""
The class `ElmoEmbedder` of AllenNLP 0.9's module `allennlp.commands.elmo`, which AllenNLP 1.0
removed. Importing `elmo_plugin.plugin` makes this module available under that name.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TextIO

import numpy as np
import torch
from torch import Tensor

from elmo_plugin.checks import check_choice, check_count, device_named
from elmo_plugin.corpora.dump import DumpSettings, dump, line_rows
from elmo_plugin.elmo.elmo import CHOICES, Elmo
from elmo_plugin.formats.find import PRETRAINED, File
from elmo_plugin.text.advice import in_one_call
from elmo_plugin.text.forms import lists_of_tokens
from elmo_plugin.text.lines import numbered_lines
from elmo_plugin.text.sentence import groups

DEFAULT_OPTIONS_FILE = f"{PRETRAINED}small"
DEFAULT_WEIGHT_FILE = None
DEFAULT_BATCH_SIZE = 64


class ElmoEmbedder:
    """
    The layers of sentences, computed as in AllenNLP 0.9: the LSTM state is carried from one call to
    the next, so that a sentence's vectors depend on the sentences before it.

    # Parameters

    options_file : `str | os.PathLike`, optional (default = `"pretrained://small"`)
        bilm-tf's options file, or anything that `Elmo.from_archive` accepts. The default is a model
        in the package with vectors of size 256; AllenNLP 0.9 downloaded one with size 1,024.
    weight_file : `str | os.PathLike`, optional
        bilm-tf's weight file, if `options_file` is an options file.
    cuda_device : `int`, optional (default = `-1`)
        Number of the GPU, or -1 for the CPU.

    # Raises

    `InputError`
        If there is no such GPU, and as `Elmo.from_files`.
    """

    def __init__(
        self,
        options_file: File = DEFAULT_OPTIONS_FILE,
        weight_file: File | None = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
    ) -> None:
        self.cuda_device, device = cuda_device, device_named("cuda_device", cuda_device)
        elmo = Elmo.from_files(options_file, weight_file, initial_state="carry")
        self.elmo_bilm = elmo.eval().to(device)

    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """
        The layers of a batch of tokenized sentences, shape `(B, L + 1, T, 2P)`, zeros at padding,
        and the mask, shape `(B, T)`, int64.
        """
        elmo = self.elmo_bilm
        tokens = elmo.characters(lists_of_tokens(batch))
        with torch.no_grad():
            layers, mask = elmo.layers(tokens, boundaries=False)
        return torch.stack(layers, dim=1), mask.long()

    def embed_sentence(self, sentence: Sequence[str]) -> np.ndarray:
        """The layers of a tokenized sentence of n tokens, shape `(L + 1, n, 2P)`."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """The layers of each of several tokenized sentences, read as one batch."""
        sentences = lists_of_tokens(batch)
        if sentences == [[]]:  # the state stays as it is
            return [np.zeros((self.elmo_bilm.n_layers, 0, self.elmo_bilm.output_dim), np.float32)]
        return self.elmo_bilm.embed(sentences, "all")

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[np.ndarray]:
        """The layers of each sentence, read in batches of `batch_size` as they are asked for."""
        batch_size = check_count("batch_size", batch_size)
        batches = groups(sentences, batch_size)
        yield from chain.from_iterable(in_one_call(self.embed_batch, batches))

    def embed_file(
        self,
        input_file: TextIO,
        output_file_path: File,
        output_format: str = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """
        Write the vectors of a text, one tokenized sentence per line, as `allennlp elmo` does.
        `output_format`: `"all"`, `"top"` or `"average"`.

        # Raises

        `InputError`
            If a line is empty, a setting is wrong, or an output exists that these settings did
            not write.
        """
        check_choice("output_format", output_format, CHOICES)
        batch_size = check_count("batch_size", batch_size)
        settings = DumpSettings(
            layer=output_format,
            batch_size=batch_size,
            forget_sentences=forget_sentences,
            use_sentence_keys=use_sentence_keys,
        )
        with input_file:
            lines = numbered_lines(input_file, getattr(input_file, "name", "input_file"))
            dump(self.elmo_bilm, line_rows(lines), output_file_path, settings)
