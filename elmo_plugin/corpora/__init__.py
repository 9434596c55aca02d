"""
What one does with a whole text: its vectors and scores in files, the uses of words and how they
change, minimal pairs, test suites.
"""

from elmo_plugin.corpora.controls import control_words
from elmo_plugin.corpora.meanings import (
    average_pairwise_distance,
    changes,
    clusters,
    jensen_shannon_divergence,
    nearest,
    picture,
    prototype_distance,
    vectors_of,
)
from elmo_plugin.corpora.score_table import read_scores, score_columns
from elmo_plugin.corpora.suites import suite_accuracies, suite_scores
from elmo_plugin.corpora.uses import read_uses
from elmo_plugin.elmo.scores import regions

__all__ = [
    "average_pairwise_distance",
    "changes",
    "clusters",
    "control_words",
    "jensen_shannon_divergence",
    "nearest",
    "picture",
    "prototype_distance",
    "read_scores",
    "read_uses",
    "regions",
    "score_columns",
    "suite_accuracies",
    "suite_scores",
    "vectors_of",
]
