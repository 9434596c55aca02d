"""
SeqVec's vectors of the proteins in a FASTA file, in HDF5 files as those of bio_embeddings: the
residues' vectors, which are sums of the layers, and each protein's, which is their mean:

    python recipes/proteins.py MODEL PROTEINS.fasta RESIDUES.h5 MEANS.h5
"""

import sys

import h5py

from elmo_plugin import Elmo

model, fasta, residues_file, means_file = sys.argv[1:]
elmo = Elmo.from_archive(model)
with open(fasta) as file:
    records = [record.partition("\n") for record in f"\n{file.read()}".split("\n>")[1:]]
names = [header.split()[0] for header, _, _ in records]
proteins = [list("".join(lines.split()).upper()) for _, _, lines in records]
if [] in proteins:
    sys.exit(f"{fasta}: {names[proteins.index([])]}: expected a sequence, found none")
with h5py.File(residues_file, "w") as residues, h5py.File(means_file, "w") as means:
    for start in range(0, len(names), 100):  # as many as fit into memory
        part = elmo.embed(proteins[start : start + 100], "average", max_tokens=15000)
        for number, vectors in enumerate(part, start):
            total = elmo.n_layers * vectors
            residues[str(number)], means[str(number)] = total, total.mean(axis=0)
            for file in (residues, means):
                file[str(number)].attrs["original_id"] = names[number]
