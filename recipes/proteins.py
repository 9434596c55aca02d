"""
SeqVec's vectors of the proteins in a FASTA file, plain or .gz, in HDF5 files as those of
bio_embeddings: the residues' vectors, which are sums of the layers, and each protein's, their mean.
A stopped run resumes:  python recipes/proteins.py MODEL PROTEINS.fasta RESIDUES.h5 MEANS.h5
"""

import fileinput
import re
import shutil
import sys

import h5py

from elmo_plugin import Elmo

if len(sys.argv) != 5:
    sys.exit(__doc__)
model, fasta, *files = sys.argv[1:]
records = re.split(r"\n(?=>)", fileinput.hook_compressed(fasta, "r").read().strip())
found = [re.fullmatch(r">(\S+).*\n([\s-]*[a-z][a-z\s-]*)(\*?)\s*", r, re.I) for r in records]
if None in found:
    sys.exit(f"{fasta}: expected >NAME and letters, found {records[found.index(None)][:60]!r}")
if dropped := [match[1] for match in found if "-" in match[2] or match[3]]:
    print(f"dropped - and a last * of {len(dropped)} proteins, as of {dropped[0]}", file=sys.stderr)
# A stopped run resumes from the cache.
elmo = Elmo.from_archive(model, cache_dir=f"{files[0]}.cache", cache_size_gb=1e9)
proteins = [list(re.sub(r"[\s-]", "", match[2]).upper()) for match in found]
with h5py.File(files[0], "w") as residues, h5py.File(files[1], "w") as means:
    for number, (match, vectors) in enumerate(zip(found, elmo.stream(proteins, "average"))):
        for file, data in ((residues, vectors), (means, vectors.mean(axis=0))):
            file[str(number)] = elmo.n_layers * data
            file[str(number)].attrs["original_id"] = match[1]
shutil.rmtree(f"{files[0]}.cache")
