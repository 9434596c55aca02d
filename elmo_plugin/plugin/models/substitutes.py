import math
from typing import Any, Dict, List

import torch
from allennlp.data import Batch, Instance
from allennlp.nn import util

from elmo_plugin.modules.sampled_softmax import IGNORE
from elmo_plugin.plugin.data.vocabulary import WORDS_NAMESPACE
from elmo_plugin.plugin.models.language_model import LanguageModel
from elmo_plugin.text.corpus import SPECIAL_WORDS


@torch.no_grad()
def substitutes(
    model: LanguageModel, instances: List[Instance], n_substitutes: int
) -> List[List[List[Dict[str, Any]]]]:
    """
    Predict the most probable words in the place of each token, from both directions. The left and
    the right context are assumed to be independent given the word, so that by Bayes' rule

        p(w | left, right)  ~  p(w | left) p(w | right) / p(w),

    where p(w) is the log-uniform distribution of the word's rank, which is close to Zipf's law.

    The sentences are read as one batch. With `carry` the model's carried state is unchanged.

    # Returns

    `List[List[List[Dict[str, Any]]]]`
        `{"word", "probability"}` by sentence and token, the most probable first: `n_substitutes`,
        or all words if the vocabulary is smaller.
    """
    model.eval()
    words = model.vocab.get_index_to_token_vocabulary(WORDS_NAMESPACE)
    rank = torch.arange(model.softmax.n_words, device=model.device)
    log_prior = torch.log(torch.log1p(1 / (rank + 1.0)) / math.log(len(rank) + 1))
    log_prior[: len(SPECIAL_WORDS)] = math.inf  # boundaries and `<UNK>` are excluded
    n_best = min(n_substitutes, len(rank) - len(SPECIAL_WORDS))
    batch = Batch(instances)
    batch.index_instances(model.vocab)
    tensors = util.move_to_device(batch.as_tensor_dict(), model.device)
    with model.same_carried_state():
        hidden, targets = model.read_sentences(tensors["source"], tensors["targets"])
    found = []
    for row, n in enumerate((targets[0] != IGNORE).sum(dim=0).tolist()):  # n - 1 words, and </S>
        # The forward direction predicts a word from its left context, the backward from its right.
        forward = model.softmax.logits(hidden[0, : n - 1, row]).log_softmax(dim=-1)  # (T, V)
        backward = model.softmax.logits(hidden[1, 2 : n + 1, row]).log_softmax(dim=-1)
        best = (forward + backward - log_prior).softmax(dim=-1).topk(n_best)
        found.append(
            [
                [{"word": words[k], "probability": p} for p, k in zip(row_p, row_k)]
                for row_p, row_k in zip(best.values.tolist(), best.indices.tolist())
            ]
        )
    return found
