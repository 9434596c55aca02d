"""
A static vector for each word, the mean of its ELMo vectors in a text, in a format that Gensim
reads:

    python recipes/static_vectors.py TEXT OUT.bin
"""

import sys
from collections import Counter

from gensim.models import KeyedVectors
from gensim.models.word2vec import LineSentence
from more_itertools import chunked

from elmo_plugin import Elmo

if len(sys.argv) != 3:
    sys.exit(__doc__)
text, out = sys.argv[1:]
elmo = Elmo.from_pretrained("small")
counts: Counter[str] = Counter()
sums: dict = {}
for sentences in chunked(LineSentence(text), 1024):
    for sentence, vectors in zip(sentences, elmo.embed(sentences, "average")):
        counts.update(sentence)
        for word, vector in zip(sentence, vectors.astype("float64")):
            sums[word] = sums.get(word, 0) + vector
static = KeyedVectors(elmo.output_dim)
words = [word for word, _ in counts.most_common()]
static.add_vectors(words, [sums[word] / counts[word] for word in words])
static.save_word2vec_format(out, binary=True)
