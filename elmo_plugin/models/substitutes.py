import math
from typing import Any, Dict, List

import torch
from allennlp.data import Batch, Instance
from allennlp.nn import util

from elmo_plugin.data.corpus import SPECIAL_WORDS
from elmo_plugin.data.vocabulary import WORDS_NAMESPACE
from elmo_plugin.models.bilm import BilmLanguageModel


@torch.no_grad()
def substitutes(
    model: BilmLanguageModel, instances: List[Instance], n_substitutes: int
) -> List[List[List[Dict[str, Any]]]]:
    """
    For each token of each sentence the likeliest words in its place, by both directions. Given the
    word, what stands before it and behind it are taken as independent, so that by Bayes' rule

        p(w | left, right)  ~  p(w | left) p(w | right) / p(w),

    where p(w) is the log-uniform distribution of a word's rank, Zipf's law nearly.

    # Returns

    `List[List[List[Dict[str, Any]]]]`
        `{"word", "probability"}`, likeliest first, by sentence and token: `n_substitutes` of them,
        or as many words as the vocabulary has.
    """
    model.eval()
    words = model.vocab.get_index_to_token_vocabulary(WORDS_NAMESPACE)
    rank = torch.arange(model.softmax.n_words, device=model.device)
    log_prior = torch.log(torch.log1p(1 / (rank + 1.0)) / math.log(len(rank) + 1))
    log_prior[: len(SPECIAL_WORDS)] = math.inf  # boundaries and the unknown word are no words
    n_best = min(n_substitutes, len(rank) - len(SPECIAL_WORDS))
    found = []
    for instance in instances:
        batch = Batch([instance])
        batch.index_instances(model.vocab)
        tensors = util.move_to_device(batch.as_tensor_dict(), model.device)
        hidden, _ = model.read_sentences(tensors["source"], tensors["targets"])
        # What stands before a word foretells it forwards, what stands behind it backwards.
        forward = model.softmax.logits(hidden[0, :-2, 0]).log_softmax(dim=-1)  # (T, V)
        backward = model.softmax.logits(hidden[1, 2:, 0]).log_softmax(dim=-1)
        best = (forward + backward - log_prior).softmax(dim=-1).topk(n_best)
        found.append(
            [
                [{"word": words[k], "probability": p} for p, k in zip(row_p, row_k)]
                for row_p, row_k in zip(best.values.tolist(), best.indices.tolist())
            ]
        )
    return found
