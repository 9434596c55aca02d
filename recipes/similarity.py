"""
The sentences of a text that are most similar to a query:

    python recipes/similarity.py TEXT "He threw the stick to the dog ."
"""

import sys

from sklearn.neighbors import NearestNeighbors

from elmo_plugin import Elmo

if len(sys.argv) != 3:
    sys.exit(__doc__)
text, query = sys.argv[1:]
sentences = [line for line in open(text, encoding="utf-8-sig").read().split("\n") if line.strip()]
tokens = [sentence.split() for sentence in [query, *sentences]]
first, *others = Elmo.from_pretrained("small").embed(tokens, "average", pool="mean")
search = NearestNeighbors(n_neighbors=min(5, len(others)), metric="cosine").fit(others)
for distance, place in zip(*(found[0] for found in search.kneighbors([first]))):
    print(f"{1 - distance:.3f}  {sentences[place]}")
