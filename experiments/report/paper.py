"""The numbers of Peters et al. (2018), in percent."""

BASELINE_AND_ELMO = {
    "squad": (81.1, 85.8),
    "snli": (88.0, 88.7),
    "srl": (81.4, 84.6),
    "coref": (67.2, 70.4),
    "ner": (90.15, 92.22),
    "sst": (51.4, 54.7),
}
"""Table 1, on test data: the authors' baseline and the same with ELMo."""

LAYERS = {
    "squad": {"none": 80.8, "top": 84.7, 1: 85.0, 0.001: 85.2},
    "snli": {"none": 88.1, "top": 89.1, 1: 89.3, 0.001: 89.5},
    "srl": {"none": 81.6, "top": 84.1, 1: 84.6, 0.001: 84.8},
}
"""
Table 2, on development data: without ELMo, with only the last layer, and with all layers and
lambda.
"""

PLACES = {
    "squad": {"input": 85.1, "both": 85.6, "output": 84.8},
    "snli": {"input": 88.9, "both": 89.5, "output": 88.7},
    "srl": {"input": 84.7, "both": 84.3, "output": 80.9},
}
"""Table 3, on development data: ELMo at the input and output of the task's encoder."""
