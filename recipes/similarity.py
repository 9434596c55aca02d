"""
The sentences of a text that are most similar to a query:

    python recipes/similarity.py TEXT "He threw the stick to the dog ."
"""

import sys

import numpy as np
from sklearn.neighbors import NearestNeighbors

from elmo_plugin import Elmo

text, query = sys.argv[1:]
sentences = open(text, encoding="utf-8").read().splitlines()
tokens = [sentence.split() for sentence in [query, *sentences]]
vectors = Elmo.from_pretrained("small").embed(tokens, "average")
first, *others = np.stack([x.mean(axis=0) for x in vectors])
search = NearestNeighbors(n_neighbors=min(5, len(others)), metric="cosine").fit(others)
for distance, place in zip(*(found[0] for found in search.kneighbors([first]))):
    print(f"{1 - distance:.3f}  {sentences[place]}")
