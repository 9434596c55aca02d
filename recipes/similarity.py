"""
The sentences of a text, and the uses of a word in it, that are most similar to those of a query:

    python recipes/similarity.py TEXT "He threw the stick to the dog ." stick
"""

import sys

from sklearn.neighbors import NearestNeighbors

from elmo_plugin import Elmo

text, query, word = sys.argv[1:]
sentences = [query, *open(text, encoding="utf-8").read().splitlines()]
tokens = [sentence.split() for sentence in sentences]
vectors = Elmo.from_pretrained("small").embed(tokens, "average")
uses = [(s, t) for s, each in enumerate(tokens) for t, token in enumerate(each) if token == word]


def print_nearest(points, texts):  # to the first of them
    search = NearestNeighbors(n_neighbors=min(6, len(points)), metric="cosine").fit(points)
    distances, places = search.kneighbors(points[:1])
    for distance, place in zip(distances[0, 1:], places[0, 1:]):
        print(f"{1 - distance:.3f}  {texts[place]}")


print_nearest([x.mean(axis=0) for x in vectors], sentences)
print(f"\nuses of {word}:")
print_nearest([vectors[s][t] for s, t in uses], [sentences[s] for s, _ in uses])
