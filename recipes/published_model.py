"""
Vectors of a sentence from a published model: a zip or `.tar.gz` file or a folder with
`options.json` and one HDF5 file, on disk or at a URL, which cached-path downloads once.

    python recipes/published_model.py MODEL "He threw the stick to the dog ." OUT.npz

MODEL is, for example, FOLDER, 193.zip, http://vectors.nlpl.eu/repository/20/193.zip or
hf://USER/REPOSITORY.
"""

import sys

import numpy as np

from elmo_plugin import Elmo

if len(sys.argv) != 4:
    sys.exit(__doc__)
model, sentence, out = sys.argv[1:]
layers = Elmo.from_archive(model).embed(sentence, layer="all")  # (L + 1, n, 2P)
np.savez(out, tokens=sentence.split(), words=layers[0], lstm=layers[1:])
print(f"{out}: {layers.shape[0]} layers, {layers.shape[1]} tokens, {layers.shape[2]} numbers each")
