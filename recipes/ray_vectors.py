"""Vectors of a large corpus with Ray Data: python recipes/ray_vectors.py TEXT OUT MODEL. TEXT has
one sentence per line, without duplicates. The same command resumes."""

import sys

import numpy as np
import pyarrow as pa
from ray import data
from ray.data.checkpoint import CheckpointConfig

from elmo_plugin import Elmo


class Vectors:
    def __init__(self, model):
        self.elmo = Elmo.from_archive(model)

    def __call__(self, batch):
        found = self.elmo.embed([text.split() for text in batch["text"].to_pylist()], "average")
        tokens = pa.FixedSizeListArray.from_arrays(np.concatenate(found).ravel(), found[0].shape[1])
        ends = pa.array(np.cumsum([0, *map(len, found)]), pa.int32())
        return batch.append_column("vectors", pa.ListArray.from_arrays(ends, tokens))


if len(sys.argv) != 4:
    sys.exit(__doc__)
text, out, model = sys.argv[1:]
done = CheckpointConfig("text", f"{out}.done", delete_checkpoint_on_success=False)
data.DataContext.get_current().checkpoint_config = done
options = {"fn_constructor_args": [model], "batch_format": "pyarrow", "concurrency": (1, 1000)}
vectors = data.read_text(text, num_cpus=0.1).map_batches(Vectors, num_cpus=0.75, **options)
vectors.write_parquet(out, mode="append", ray_remote_args={"num_cpus": 0.1})
