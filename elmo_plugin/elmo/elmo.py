"""Contextual word vectors."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from operator import length_hint
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from elmo_plugin.checks import (
    InputError,
    check_choice,
    check_count,
    check_flag,
    check_number,
    fail,
    is_whole,
)
from elmo_plugin.elmo.export import Program
from elmo_plugin.elmo.frozen import lock_of
from elmo_plugin.elmo.layers import BiLMLayers, check_bilm, from_snapshot, without_boundaries
from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.formats.fill import check_size
from elmo_plugin.formats.find import PRETRAINED, find_bilm
from elmo_plugin.formats.format import FoundBiLM
from elmo_plugin.formats.mixes import LARGEST, TrainedMixes
from elmo_plugin.modules import BiLM, ScalarMix
from elmo_plugin.ops.private_torch import not_compiled
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.advice import OF_PROCESS, advised, in_one_call
from elmo_plugin.text.characters import long_words
from elmo_plugin.text.forms import by_row, rows_in, rows_of
from elmo_plugin.text.raw_text import FIRST_WORDS
from elmo_plugin.text.sentence import Row, parts

logger = logging.getLogger(__name__)

PART_TOKENS = 16_384
"""
Number of tokens whose vectors `Elmo.stream` has in memory at a time on a CPU: 64 MiB at the paper's
2P = 1024. Sentences of several batches have little padding when they are sorted by length.
"""

PART_BATCHES = 4
"""Least number of batches of such a part, for which it may have more tokens."""

MOST_MIXES = 1000

FORM_OF_MIXES = {"num_output_representations": 1, "do_layer_norm": False, "use_top_only": False}
"""The parameters of `Elmo` that decide which weights its mixes have, with their defaults."""

CHOICES: dict[Any, Callable[[list[Tensor]], Tensor]] = {
    "all": torch.stack,
    "average": lambda layers: torch.stack(layers).mean(dim=0),
    "top": lambda layers: layers[-1],
}
"""What `Elmo.embed` returns of the layers, in addition to a single layer."""

POOLS = ("mean",)
"""The ways to make one vector of those of a sentence."""


class Elmo(BiLMLayers):
    """
    Contextual word vectors: a biLM and one or more mixes of its layers.

        elmo = Elmo.from_archive("model.tar.gz")
        vectors = elmo.embed("He threw the stick to the dog .")  # NumPy, (8, 256) for `small`

    In shapes, B is the number of sentences, T that of tokens in the longest one, C that of
    characters per token, L that of LSTM layers, and P is `projection_dim`: a vector has 2P values.

    # Parameters

    bilm : `BiLM`
        The biLM. Modified in place: it is set to evaluation mode, and its `requires_grad` and
        precision are set. Modules that have the same biLM share these two; a `copy.deepcopy` of it
        can have others.
    num_output_representations : `int`, optional (default = `1`)
        Number of mixes, each with its own weights. The embedder concatenates them.
    do_layer_norm : `bool`, optional (default = `False`)
        Whether to normalize each layer before mixing, by the mean and variance of each sentence;
        in `forward`, which tasks use, by those of the whole batch, as in AllenNLP.
    dropout : `float`, optional (default = `0.0`)
        Dropout rate of the mixed vectors.
    keep_sentence_boundaries : `bool`, optional (default = `False`)
        Whether `forward` keeps the vectors of the two boundaries, as the first and the last of a
        sentence.
    scalar_mix_parameters : `Sequence[float]`, optional
        Fixed weights of the L + 1 layers, before the softmax, instead of learned ones: `[1, 0, 0]`
        gives the word layer a share of 0.58, and `[100, 0, 0]` all.
    use_top_only : `bool`, optional (default = `False`)
        Whether to use only the top layer instead of a mix; see `ScalarMix`.
    requires_grad : `bool`, optional
        Whether to fine-tune the biLM with the task. A frozen biLM runs without autograd and caches
        word vectors. By default it is frozen, unless another module that exists has the biLM, whose
        setting then stays.
    initial_state : `str`, optional (default = `"warm"`)
        LSTM state at the start of a sentence: `"warm"`, the mean state at sentence starts in
        training; `"zero"`; or `"carry"`, the final state of the same batch row in the previous
        batch, as in bilm-tf and AllenNLP, so that vectors depend on earlier batches.
    precision : `str`, optional
        Precision of the biLM's matrix multiplications: `"fp32"`; `"bf16"`, which permits bfloat16
        on devices that have it natively; or `"int8"`, for a frozen biLM, which also permits 8-bit
        integers in the LSTMs, where the compiled kernels run on a CPU on which this is faster. By
        default that of `bilm`, which is `"fp32"` once it is loaded. The vectors are always fp32.
    cache_dir : `str | os.PathLike`, optional
        Folder for a `LayerCache`, which several biLMs may share. Results of the same batch are
        bit-identical with and without a cache. Layers computed in another batch agree up to
        rounding (1e-5), because batches of other shapes round differently.
    cache_dtype : `str`, optional (default = `"float32"`)
        Type of the numbers in the cache, `"float32"` or `"float16"`, to which they are rounded.
    cache_size_gb : `float`, optional (default = `10.0`)
        Maximum size of the cache in GiB.

    # Raises

    `InputError`
        If a parameter has a wrong type or value, if `scalar_mix_parameters` is not one finite
        number per layer, if `cache_dir` is combined with a fine-tuned biLM or with `"carry"`, or if
        another module that exists has the biLM with another `requires_grad` or `precision`.
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        num_output_representations: int = 1,
        do_layer_norm: bool = False,
        dropout: float = 0.0,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        use_top_only: bool = False,
        requires_grad: bool | None = None,
        initial_state: str = "warm",
        precision: str | None = None,
        cache_dir: str | os.PathLike | None = None,
        cache_dtype: str = "float32",
        cache_size_gb: float = 10.0,
    ) -> None:
        check_number("dropout", dropout, least=0, most=1)
        check_flag("keep_sentence_boundaries", keep_sentence_boundaries)
        check_bilm(bilm)
        mixes = _new_mixes(
            num_output_representations, bilm, do_layer_norm, scalar_mix_parameters, use_top_only
        )
        super().__init__(
            bilm,
            requires_grad=requires_grad,
            initial_state=initial_state,
            precision=precision,
            cache_dir=cache_dir,
            cache_dtype=cache_dtype,
            cache_size_gb=cache_size_gb,
        )
        self.keep_sentence_boundaries = keep_sentence_boundaries
        self.dropout = nn.Dropout(dropout)
        self.num_output_representations = len(mixes)
        for k, mix in enumerate(mixes):
            self.add_module(f"scalar_mix_{k}", mix)  # AllenNLP's name, in regular expressions too

    @classmethod
    def from_files(
        cls,
        options_file: str | os.PathLike,
        weight_file: str | os.PathLike | None = None,
        vocabulary_file: str | os.PathLike | None = None,
        **kwargs: Any,
    ) -> Elmo:
        """
        Load a model from bilm-tf's two files, or from all that `from_archive` accepts. A biLM that
        reads words from a table needs the vocabulary too. A URL is downloaded once, with the
        package `cached-path`. `kwargs` are those of `Elmo`.

        # Raises

        `InputError` or `FileNotFoundError`
            If the files do not exist, are damaged or have another format.
        """
        return cls.from_found(find_bilm(options_file, weight_file, vocabulary_file), **kwargs)

    @classmethod
    def from_pretrained(cls, name: str, **kwargs: Any) -> Elmo:
        """Load an installed model, as `from_archive`. `kwargs` are those of `Elmo`."""
        return cls.from_archive(PRETRAINED + str(name).removeprefix(PRETRAINED), **kwargs)

    @classmethod
    def from_archive(cls, archive_file: str | os.PathLike, **kwargs: Any) -> Elmo:
        """
        Load a model from anything that names a biLM: the `model.tar.gz` or the folder of a trained
        `bilm`, or of a task model with the embedder `elmo` (`ARCHIVE#NAME` if it has several); a
        folder, zip or `.tar.gz` file with bilm-tf's two files; a URL of any of these, or
        `hf://USER/REPOSITORY`; or the name of an installed model. `kwargs` are those of `Elmo`.

        A task model and the folder of `save` have trained mixes. They are loaded too, and the
        `num_output_representations`, `do_layer_norm`, `use_top_only` and `initial_state` with which
        they were trained are the defaults of `kwargs`. They are not loaded, with a warning, if
        `kwargs` have others of the first three.
        """
        return cls.from_found(find_bilm(archive_file), **kwargs)

    @classmethod
    def from_found(cls, loaded: FoundBiLM, **kwargs: Any) -> Elmo:
        """
        Make a model of what `find_bilm` found, with the mixes that were trained with the biLM, if
        `kwargs` do not ask for others.
        """
        settings = {} if loaded.mixes is None else loaded.mixes.settings
        if has_weights := kwargs.get("scalar_mix_parameters") is not None:
            settings = {**settings, "use_top_only": False}
        elmo = cls(loaded.bilm, **{**settings, **kwargs})
        elmo.known_words = (loaded.words or [])[:FIRST_WORDS]
        if loaded.mixes is None or has_weights:
            return elmo
        form = {**FORM_OF_MIXES, **settings}
        if asked := [key for key in FORM_OF_MIXES if kwargs.get(key, form[key]) != form[key]]:
            logger.warning("the trained mixes have another %s, and are not loaded", asked[0])
            return elmo
        states = elmo._state_of_mixes(), loaded.mixes.state
        own, trained = ({name: x.shape for name, x in state.items()} for state in states)
        if own != trained:
            fail(loaded.mixes.source, f"the mixes of its settings, {', '.join(own)}", list(trained))
        elmo.load_state_dict(loaded.mixes.state, strict=False)
        return elmo

    @from_snapshot
    def save(self, folder: str | os.PathLike) -> None:
        """
        Write bilm-tf's `options.json` and `weights.hdf5`, which everything that takes a biLM reads,
        and the mixes in `elmo_mixes.json`, which `from_archive` reads, so that its vectors are
        equal; and `vocabulary.txt` with the words of a table, if the biLM reads one. The folder is
        created if it does not exist.

        # Raises

        `InputError`
            If the folder cannot be used or has words or a softmax, which would be lost, or a weight
            is NaN or infinite.
        `RuntimeError`
            If the biLM has no weights.
        `DiskFullError`
            If the disk is full.
        """
        self.check_weights()
        mixes = TrainedMixes(self._state_of_mixes(), self.mix_settings)
        write_model_files(folder, self.bilm, mixes=mixes)

    @classmethod
    def from_options(cls, options: BiLMOptions, **kwargs: Any) -> Elmo:
        """
        Create a model without weights. Calling it raises an error until `load_state_dict` has
        loaded all weights of the biLM. `kwargs` are those of `Elmo`.
        """
        check_size(options)
        elmo = cls(BiLM(options), **kwargs)
        elmo.has_weights = False
        return elmo

    @property
    def mixes(self) -> list[ScalarMix]:
        return [getattr(self, f"scalar_mix_{k}") for k in range(self.num_output_representations)]

    @property
    def mix_settings(self) -> dict[str, Any]:
        """The parameters that the mixes belong to, those of `MIX_SETTINGS`."""
        return {
            "num_output_representations": self.num_output_representations,
            "do_layer_norm": self.mixes[0].do_layer_norm,
            "use_top_only": self.mixes[0].use_top_only,
            "initial_state": self.initial_state,
        }

    def _state_of_mixes(self) -> dict[str, Tensor]:
        return {name: x for name, x in self.state_dict().items() if name.startswith("scalar_mix_")}

    @not_compiled  # the kernels and caches are faster than what a compiler makes of them
    @from_snapshot
    def forward(self, tokens: Tensor) -> dict[str, Any]:
        """
        Compute the mixes of a batch.

        # Parameters

        tokens : `Tensor`
            Character ids of shape `(B, T, C)`, or `(..., B, T, C)` for lists of sentences.

        # Returns

        `dict[str, Any]`
            `elmo_representations`, a list with one tensor of shape `(..., B, T, 2P)` for each mix,
            and `mask`, shape `(..., B, T)`. With `keep_sentence_boundaries`, T + 2 replaces T. At
            padding the vectors are zeros, except with it and `do_layer_norm`, as in AllenNLP.
        """
        if not isinstance(tokens, Tensor) or tokens.dim() < 3:
            given = tuple(tokens.shape) if isinstance(tokens, Tensor) else type(tokens).__name__
            raise InputError(
                "expected character ids of shape (.., B, T, C), as Elmo.characters gives for lists "
                f"of tokens, found {given}"
            )
        outer = tokens.shape[:-2]
        limit = self.bilm.token_encoder.word_limit
        if not torch.compiler.is_exporting():  # an exported program warns of nothing
            tokens = tokens.cpu()  # the only time that the CPU waits for a GPU
            words = long_words(tokens, limit)
            OF_PROCESS.of_cut_words(words, int(tokens[..., 0].count_nonzero()), limit)
            OF_PROCESS.say()
        flat = self.bilm.resize_characters(tokens.flatten(0, -3))
        self.bilm.token_encoder.check_spelled(flat)
        keep = self.keep_sentence_boundaries
        layers, mask = self.layers(flat, boundaries=keep or self._normalizes)
        mixed = [mix(layers, mask) for mix in self.mixes]
        if self._normalizes and not keep:
            mixed, mask = without_boundaries(mixed, mask)
        return {
            "elmo_representations": [self.dropout(x).view(*outer, *x.shape[1:]) for x in mixed],
            "mask": mask.view(*outer, mask.size(1)),
        }

    @property
    def _normalizes(self) -> bool:
        """Whether mixes read the boundaries: the statistics of layer norm include them."""
        return self.mixes[0].do_layer_norm

    @not_compiled
    @torch.no_grad()
    @advised()
    def embed(
        self,
        sentences: str | Sequence[str] | Sequence[Sequence[str]],
        layer: str | int = "mix",
        as_tensors: bool = False,
        *,
        pool: str | None = None,
        raw: bool = False,
        max_tokens: int | None = None,
        progress: bool = False,
    ) -> Any:
        """
        Compute the vectors of sentences.

        # Parameters

        sentences : `str | Sequence[str] | Sequence[Sequence[str]]`
            A sentence, as a string with whitespace between its tokens or as a list or tuple of
            tokens; or several sentences, as a list of such lists. A column of pandas, polars, Arrow
            or `datasets`, also an index, has a sentence in each row, in either form. All else, such
            as a NumPy array or an iterator, holds sentences if one of its strings has a space, tab
            or line break, and raises an error if none has, because it may be the tokens of one
            sentence. As a text in a file, a string is split at all whitespace of Unicode, such as a
            no-break space (U+00A0) or an ideographic space (U+3000). A token of a list is never
            split: whitespace inside it is read as `_`, except that a tab or a line break, or a
            space in a single list of strings, is an error. A `Sentence`, as of `running_text`, or a
            list of them is read as it is.
        layer : `str | int`, optional (default = `"mix"`)
            `"mix"` for the first mix, `"all"` for all layers, `"average"` for their average,
            `"top"` for the top layer, or the number of a layer, where 0 is the word layer.
        as_tensors : `bool`, optional (default = `False`)
            Whether to return tensors on the biLM's device instead of NumPy arrays.
        pool : `str`, optional
            `"mean"` for one vector per sentence or raw text, the mean over its tokens, which is
            zeros if there are none.
        raw : `bool`, optional (default = `False`)
            Whether to read raw English text, such as `"It isn't easy."`: a string, or strings in a
            list or anything else. Each is split into sentences, and these into tokens as in the
            text of the models in the package. The sentences of a string are read apart, and their
            vectors follow one another. `split_tokens` of `elmo_plugin.text` gives the tokens, their
            places and sentences. Needs the packages nltk and nupunkt.
        max_tokens : `int`, optional
            The most tokens to read at once, including padding and boundaries, by default 2,048 on a
            CPU and 16,384 on other devices. More take more memory. With `carry` all sentences are
            read at once, except those of a single raw text, each of which continues from the one
            before it.
        progress : `bool`, optional (default = `False`)
            Whether to show how many sentences have been read, in a bar of tqdm on stderr.

        # Returns

        `numpy.ndarray` or `Tensor`, or a list with one per sentence
            Vectors of shape `(n, 2P)` for a sentence of n tokens, or `(L + 1, n, 2P)` for `"all"`.
            With `pool`, one array for all N sentences, of shape `(N, 2P)` or `(N, L + 1, 2P)`, or
            without N for a single sentence.

        # Raises

        `InputError`
            If the sentences have another form, if the layer or pool does not exist, or with `carry`
            if one of several raw texts has several sentences.
        """
        rows, is_single = rows_of(sentences, raw)
        options = {"pool": pool, "max_tokens": max_tokens, "progress": progress}
        vectors = self.embed_rows(rows, layer, as_tensors, **options)
        return vectors[0] if is_single else vectors

    @not_compiled
    @torch.no_grad()
    @from_snapshot
    def embed_rows(
        self,
        rows: list[Row],
        layer: str | int,
        as_tensors: bool = False,
        *,
        pool: str | None = None,
        max_tokens: int | None = None,
        progress: bool = False,
    ) -> Any:
        """The vectors of rows as in `embed`."""
        check_flag("as_tensors", as_tensors)
        if pool is not None:
            check_choice("pool", pool, POOLS)
        layer = check_layer(layer, self.n_layers)
        sizes = [[len(x.tokens) for x in row] for row in rows]
        n_tokens = [(own, sum(of_row)) for of_row in sizes for own in of_row]
        of_sentences: list[Any] = [None] * len(n_tokens)
        boundaries = layer == "mix" and self._normalizes
        # A disabled bar would start the thread of tqdm too.
        shown = tqdm(total=len(n_tokens), unit=" sentences") if progress else nullcontext()
        with shown as bar:
            for places, layers, mask in self.read(rows, max_tokens, boundaries):
                chosen = self._chosen(layers, mask, layer).float()
                if not as_tensors:
                    chosen = chosen.cpu()  # at once, because the CPU waits for a GPU
                for number, b in enumerate(places):  # of (.., B, T, 2P)
                    own, of_row = n_tokens[b]
                    of_tokens = chosen[..., number, :own, :]
                    of_tokens = of_tokens.sum(-2) / max(1, of_row) if pool else of_tokens.clone()
                    of_sentences[b] = of_tokens if as_tensors else of_tokens.numpy()
                if bar is not None:
                    bar.update(len(places))
        if not pool:
            join = torch.cat if as_tensors else np.concatenate
            some = by_row(rows, of_sentences)
            return [x[0] if len(x) == 1 else join(x, -2) for x in some]
        vectors = [sum(x[1:], x[0]) for x in by_row(rows, of_sentences)]
        if not vectors:
            shape = (0, self.n_layers, self.output_dim) if layer == "all" else (0, self.output_dim)
            nothing = torch.zeros(shape, device=self.device)
            return nothing if as_tensors else nothing.cpu().numpy()
        return torch.stack(vectors) if as_tensors else np.stack(vectors)

    def stream(
        self,
        sentences: Iterable[str | Sequence[str]],
        layer: str | int = "mix",
        *,
        raw: bool = False,
        progress: bool = False,
        **options: Any,
    ) -> Iterator[Any]:
        """
        Compute the vectors of a text that does not fit into memory, sentence by sentence.

        # Parameters

        sentences : `Iterable[str | Sequence[str]]`
            The sentences, each a string with whitespace between its tokens or a list of tokens. An
            open file has a sentence in each line. At most some thousand tokens are read ahead. A
            string of any list is a sentence; a warning says so if several have no whitespace.
        layer, raw, progress, options
            See `embed`. With `carry`, each sentence continues from the one before it.

        # Returns

        `Iterator`
            What `embed` returns for each sentence, in order. Rounding may differ in the last
            digits, because sentences are in other batches.
        """
        most = self.max_tokens(options.get("max_tokens"))
        n_tokens = max(PART_TOKENS, PART_BATCHES * most)
        if self.initial_state == "carry":
            n_tokens = 1
        embed = partial(self.embed_rows, layer=layer, **options)
        vectors = chain.from_iterable(in_one_call(embed, parts(rows_in(sentences, raw), n_tokens)))
        total = length_hint(sentences) or None
        yield from tqdm(vectors, total=total, unit=" sentences") if progress else vectors

    @advised()
    @from_snapshot
    def uses(
        self,
        corpus: str | os.PathLike | Iterable[str | Sequence[str]],
        words: str | os.PathLike | Iterable[str],
        layer: str | int = "top",
        *,
        most: int | None = None,
        seed: int = 0,
        raw: bool = False,
    ) -> Any:
        """
        Collect the uses of words: each occurrence in a text, with its sentence and its vector.

        # Parameters

        corpus : `str | os.PathLike | Iterable[str | Sequence[str]]`
            The path of a text, which is a file, a glob or a folder with one sentence per line; or
            the sentences, as in `stream`, also in a column of pandas. Or the path of a table, named
            `.csv` or `.tsv`, with the columns `sentence`, `start`, `end` and perhaps `word` for
            spans as in `embed_spans`.
        words : `str | os.PathLike | Iterable[str]`
            A list of words; a dictionary of each word's forms, such as `{"dog": ["dog", "dogs"]}`;
            or the path of a file in which each line has a word or, separated by a tab, a word and
            its forms, separated by spaces. A string that is no file and has none of `./\\:~` is a
            word. A form is compared with whole tokens, as it is written.
            One of several tokens, such as `"ice cream"`, has single spaces between them, and is in
            a list, or in a file between tabs or alone in its line. All uses count, also of *ice* in
            *ice cream*. For a table, `"characters"` or `"tokens"`, the unit of `start` and `end`.
        layer : `str | int`, optional (default = `"top"`)
            See `embed`, except `"all"`.
        most : `int`, optional
            At most how many uses of each word, drawn at random from the whole text; by default all.
        seed : `int`, optional (default = `0`)
            The seed of the draw.
        raw : `bool`, optional (default = `False`)
            Whether to split sentences into tokens, as in `embed`.

        # Returns

        `pandas.DataFrame`
            A row for each use, in the order of the text, with the columns `word`; `token`, the
            form; `file`; `sentence` and `position`, the indices of the line and of the first token,
            from 0, where `sentence` is the label of a Series' row or the index of a table's row;
            `text`, the sentence; `sentence_in_row`, its index in a line or string of raw text;
            `line`, which is `sentence` except in running text; `control_of`, which is empty except
            in files of the command with `--controls`; and `vector`, of shape `(2P,)`, the mean over
            the form's tokens. Its `attrs` describe how the vectors were computed.

        # Raises

        `InputError`
            If pandas is not installed, if there are no words, if a form has two words, if the text
            lacks a word given as a string, or with `carry`, under which vectors depend on the
            sentences before.
        """
        # What reads text is not needed for vectors.
        from elmo_plugin.corpora.uses import uses_frame

        layer = check_layer(layer, self.n_layers)
        return uses_frame(self, corpus, words, layer, most, seed, raw)

    @advised()
    @from_snapshot
    def embed_spans(
        self,
        sentences: Iterable[str | Sequence[str]],
        start: Iterable[int],
        end: Iterable[int],
        layer: str | int = "top",
        *,
        unit: str = "characters",
        raw: bool = False,
        max_tokens: int | None = None,
    ) -> np.ndarray:
        """
        Compute the vectors of words and phrases in sentences, each given by its place.

        # Parameters

        sentences : `Iterable[str | Sequence[str]]`
            A sentence for each span, as in `stream`: a string or a list of tokens, also in a column
            of a DataFrame. Equal sentences are read once.
        start, end : `Iterable[int]`
            The first character or token of each span, and the one after its last, from 0, such as
            columns of the DataFrame. Characters are those of the string, or of the tokens of a list
            with single spaces between them. Whole floats are read as integers.
        layer : `str | int`, optional (default = `"top"`)
            See `embed`.
        unit : `str`, optional (default = `"characters"`)
            What the places are counted in, `"characters"` or `"tokens"`.
        raw : `bool`, optional (default = `False`)
            Whether to split strings into sentences and tokens, as in `embed`. Without it, the
            tokens of a string are separated by whitespace.
        max_tokens : `int`, optional
            See `embed`.

        # Returns

        `numpy.ndarray`
            The vectors of the N spans in their order, of shape `(N, 2P)`, or `(N, L + 1, 2P)` for
            `"all"`. The vector of several tokens is their mean. A token that is only partly in a
            span counts in full, with a warning.

        # Raises

        `InputError`
            If a place is missing, or a span is empty, has only whitespace, ends after the text or,
            with `raw`, is in several sentences; if there is not one start and one end for each
            sentence; or with `carry`, under which vectors depend on the sentences before.
        """
        # What reads text is not needed for vectors of whole sentences.
        from elmo_plugin.corpora.spans import embed_spans

        return embed_spans(self, sentences, start, end, layer, unit, raw, max_tokens)

    def _chosen(self, layers: list[Tensor], mask: Tensor, layer: str | int) -> Tensor:
        """The layers or the mix that `embed` returns, shape `(.., B, T, 2P)`."""
        if layer == "mix":
            mixed = self.mixes[0](layers, mask, by_sentence=True)
            return without_boundaries([mixed], mask)[0][0] if self._normalizes else mixed
        return layers[layer] if isinstance(layer, int) else CHOICES[layer](layers)

    def export(self, layer: str | int = "mix") -> torch.export.ExportedProgram:
        """
        The model as a program of PyTorch's own operators, which computes the vectors of `embed` in
        processes that do not have this package. `torch.export.save` writes it to a file, and
        `torch.onnx.export` makes an ONNX model of it.

        The program takes character ids of shape `(B, T, C)`, int64 and zeros at padding, and
        returns vectors of shape `(B, T, 2P)`, or `(L + 1, B, T, 2P)` for `"all"`, zeros at padding.
        B and T are dynamic. The program runs on the biLM's device, shares its weights until it is
        saved, and does not check its input. During the export, other threads that use the biLM
        wait. Do not use other models in other threads meanwhile: PyTorch's exporter affects the
        whole process.

        # Parameters

        layer : `str | int`, optional (default = `"mix"`)
            See `embed`.

        # Raises

        `InputError`
            If `initial_state` is `"carry"`, `precision` is not `"fp32"`, or there is no such layer.
        `RuntimeError`
            If the biLM has no weights.
        """
        layer = check_layer(layer, self.n_layers)
        # Sizes of 0 and 1 in the example would be fixed in the program.
        example = self.characters([["one", "two"], ["one"]])
        dynamic = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}

        def vectors(tokens: Tensor) -> Tensor:
            boundaries = layer == "mix" and self._normalizes
            return self._chosen(*self.layers(tokens, boundaries), layer)

        program = Program(self, vectors)
        with lock_of(self.bilm), torch.no_grad():
            return torch.export.export(program, (example,), dynamic_shapes=(dynamic,))


def _new_mixes(
    n_mixes: int,
    bilm: BiLM,
    do_layer_norm: bool,
    weights: Sequence[float] | None,
    use_top_only: bool,
) -> list[ScalarMix]:
    """Check the parameters of the mixes of a biLM's layers, and create these."""
    n_layers = bilm.bilstm.n_layers + 1
    n_mixes = check_count("num_output_representations", n_mixes, most=MOST_MIXES)
    check_flag("do_layer_norm", do_layer_norm)
    check_flag("use_top_only", use_top_only)
    if weights is not None:
        _check_mix(weights, n_layers)
        if use_top_only:
            fail("scalar_mix_parameters", "none with use_top_only", weights)
    return [
        ScalarMix(
            n_layers,
            do_layer_norm=do_layer_norm,
            initial_scalar_parameters=weights,
            trainable=weights is None,
            use_top_only=use_top_only,
        )
        for _ in range(n_mixes)
    ]


def _check_mix(weights: Any, n_layers: int) -> None:
    name = "scalar_mix_parameters"
    if isinstance(weights, str) or not isinstance(weights, Sequence) or len(weights) != n_layers:
        fail(name, f"a list of {n_layers} numbers, one for each layer and one for words", weights)
    for k, weight in enumerate(weights):
        check_number(f"{name}[{k}]", weight, least=-LARGEST, most=LARGEST)


def check_layer(layer: Any, n_layers: int) -> str | int:
    """
    Return the name or number of a layer, before the sentences are read, because with `carry`
    reading changes the state.
    """
    if is_whole(layer) and 0 <= layer < n_layers:
        return int(layer)
    if not isinstance(layer, str) or layer not in ("mix", *CHOICES):
        fail("layer", f"mix, all, average, top or a number below {n_layers}", layer)
    return layer
