import json
import math
from copy import deepcopy
from itertools import chain
from typing import Any

import torch
from allennlp.common import JsonDict
from allennlp.data import Batch, DatasetReader, Instance
from allennlp.models import Model
from allennlp.nn import util
from allennlp.predictors import Predictor

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.sentences import SPACE
from elmo_plugin.files.standard_streams import output_encoding
from elmo_plugin.modules.sampled_softmax import CHUNK_NUMBERS, IGNORE, log_uniform
from elmo_plugin.plugin.data.vocabulary import WORDS_NAMESPACE
from elmo_plugin.plugin.models.language_model import BiLMModel
from elmo_plugin.plugin.models.predictions import json_line, sentence_output
from elmo_plugin.text.corpus import is_corpus
from elmo_plugin.text.lines import find_files, read_blocks
from elmo_plugin.text.special_words import SPECIAL_WORDS

EMPTY = "expected a sentence, found an empty line"


@Predictor.register("bilm")
class BiLMPredictor(Predictor):
    """
    Predicts token probabilities, perplexity and lexical substitutes with a language model. The
    input is one sentence per line with white space between its tokens, or JSON:
    `{"sentence": "He threw the stick ."}` or `{"tokens": ["He", ..]}`. A sentence is split at all
    white space, such as a no-break space, which in `tokens` is part of a token. A blank line, or a
    sentence without tokens, is an error.

    The output contains, in the order of the text:

    * `tokens`,
    * `in_vocabulary`: for each token whether the model's vocabulary has it; one that it lacks has
      the probability of `<UNK>`, which stands for all such words and is often high;
    * `forward_log_probabilities`: the natural logarithm of the probability of each token given
      those before it, and of the end;
    * `backward_log_probabilities` of the beginning, and of each token given those after it;
    * `perplexity` of both directions together;
    * `substitutes`: for each token the five most probable words in its place according to both
      directions, with their probabilities; see `substitutes`.

    Registered as a `Predictor` with name "bilm".
    """

    n_substitutes = 5
    _model: BiLMModel

    def load_line(self, line: str) -> JsonDict:
        line = line.removeprefix("\ufeff").strip()  # a byte order mark is no character of the text
        if not line:
            raise InputError(EMPTY)
        found = {"sentence": line}
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except json.JSONDecodeError:
                if line.startswith('{"'):  # other braces may be text
                    raise
        _tokens(found)  # here, where the line's number is known
        return found

    def check_text(self, path: str) -> None:
        """
        Raise an `InputError` if a text that the dataset reader is about to read has a blank line,
        which the reader skips.
        """
        for file in [] if is_corpus(path) else find_files(path):
            for number, line in enumerate(chain.from_iterable(read_blocks(file)), start=1):
                if not line.strip():
                    raise InputError(f"{file}, line {number}: {EMPTY}")

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        return self._dataset_reader.text_to_instance(_tokens(json_dict))

    def dump_line(self, outputs: JsonDict) -> str:
        line = json_line(outputs)
        try:
            line.encode(output_encoding())
        except UnicodeEncodeError:
            line = json.dumps(outputs)
        return line + "\n"

    def predict_instance(self, instance: Instance) -> JsonDict:
        return self.predict_batch_instance([instance])[0]

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        for instance in instances:
            self._dataset_reader.apply_token_indexers(instance)
        words = substitutes(self._model, instances, self.n_substitutes)
        outputs = self._model.forward_on_instances(instances)
        return [
            {**sentence_output(output), "substitutes": found}
            for output, found in zip(outputs, words)
        ]


def _tokens(json_dict: JsonDict) -> list[str]:
    """The tokens of a JSON object. Raises an `InputError` if they are none."""
    tokens: Any = json_dict.get("tokens")
    if tokens is None and isinstance(json_dict.get("sentence"), str):
        tokens = json_dict["sentence"].split()
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        expected = '{"sentence": "tokens separated by white space"} or {"tokens": ["..."]}'
    elif not tokens:
        expected = "at least one token"
    elif not all(tokens) or SPACE.search("\0".join(tokens)):
        expected = "tokens that are not empty and have no spaces in them"
    else:
        return tokens
    raise InputError(f"expected {expected}, found {json.dumps(json_dict)[:80]}")


@torch.no_grad()
def substitutes(
    model: BiLMModel, instances: list[Instance], n_substitutes: int
) -> list[list[list[dict[str, Any]]]]:
    """
    Predict the most probable words in the place of each token, from both directions. The left and
    the right context are assumed to be independent given the word, so that by Bayes' rule

        p(w | left, right)  ~  p(w | left) p(w | right) / p(w),

    where p(w) is the log-uniform distribution of the word's rank, which is close to Zipf's law. The
    sentences are read as one batch. With `carry` the model's carried state is unchanged.

    Returns `{"word", "probability"}` by sentence and token, the most probable first:
    `n_substitutes`, or all words if the vocabulary is smaller.
    """
    model.eval()
    words = model.vocab.get_index_to_token_vocabulary(WORDS_NAMESPACE)
    rank = torch.arange(model.softmax.n_words, device=model.device)
    log_prior = torch.log(log_uniform(rank, len(rank)))
    log_prior[: len(SPECIAL_WORDS)] = math.inf  # boundaries and `<UNK>` are excluded
    n_best = min(n_substitutes, len(rank) - len(SPECIAL_WORDS))
    batch = Batch(instances)
    batch.index_instances(model.vocab)
    tensors = util.move_to_device(batch.as_tensor_dict(), model.device)
    hidden, targets = model.read_sentences(
        model.characters(tensors["source"]), tensors["targets"], carries=False
    )
    n_rows = max(1, CHUNK_NUMBERS // model.softmax.n_words)
    found = []
    for row, n in enumerate((targets[0] != IGNORE).sum(dim=0).tolist()):  # n - 1 words, and </S>
        # The forward direction predicts a word from its left context, the backward from its right.
        contexts = hidden[0, : n - 1, row], hidden[1, 2 : n + 1, row]  # (T, P)
        of_sentence = []
        for left, right in zip(*(context.split(n_rows) for context in contexts)):
            forward = model.softmax.logits(left).log_softmax(dim=-1)  # (n_rows, V)
            backward = model.softmax.logits(right).log_softmax(dim=-1)
            best = (forward + backward - log_prior).softmax(dim=-1).topk(n_best)
            of_sentence += [
                [{"word": words[k], "probability": p} for p, k in zip(row_p, row_k)]
                for row_p, row_k in zip(best.values.tolist(), best.indices.tolist())
            ]
        found.append(of_sentence)
    return found


@Predictor.register("elmo")
class ElmoPredictor(BiLMPredictor):
    """
    Computes ELMo vectors with the archive of a `bilm`. The input is that of the predictor "bilm".
    The output contains `tokens` and `layers`: L + 1 lists, for the words and each LSTM layer, with
    a vector of 2P numbers for each token. `initial_state` and `precision` are those of the model.

    Registered as a `Predictor` with name "elmo".
    """

    def __init__(self, model: Model, dataset_reader: DatasetReader, frozen: bool = True) -> None:
        super().__init__(model, dataset_reader, frozen)
        bilm = self._model
        # `Elmo` freezes its biLM, so it gets a copy.
        self._elmo = Elmo(
            deepcopy(bilm.bilm), initial_state=bilm.initial_state, precision=bilm.precision
        ).eval()

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        sentences = [instance["metadata"].metadata for instance in instances]  # type: ignore[attr-defined]
        return [
            {"tokens": tokens, "layers": layers.tolist()}
            for tokens, layers in zip(sentences, self._elmo.embed(sentences, layer="all"))
        ]
