"""
Measures the CPU time and the peak memory of scores of semantic change with p-values, for random
vectors as uses and random clusters:

    python -m benchmarks.changes
"""

import argparse
import resource
import sys
import time

import numpy as np
import pandas

from elmo_plugin.corpora import changes


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.changes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--words", type=int, default=2_000, help="(%(default)s)")
    parser.add_argument("--uses", type=int, default=200, help="in each text (%(default)s)")
    parser.add_argument("--size", type=int, default=256, help="of a vector (%(default)s)")
    parser.add_argument("--permutations", type=int, default=1_000, help="(%(default)s)")
    parser.add_argument("--measures", nargs="+", default=["apd", "prt", "jsd"])
    arguments = parser.parse_args()

    random = np.random.default_rng(0)
    texts = [uses(random, arguments.words, arguments.uses, arguments.size) for _ in range(2)]
    before, started, cpu = memory(), time.perf_counter(), time.process_time()
    options = {"measures": arguments.measures, "permutations": arguments.permutations}
    scores = changes(*texts, labels="cluster", **options)
    cpu, elapsed = time.process_time() - cpu, time.perf_counter() - started
    print(f"{len(scores)} words, {arguments.uses} uses of each in both texts: {options}")
    print(f"{cpu:.0f} s of CPU time, {elapsed:.0f} s elapsed")
    print(f"{memory():.2f} GiB of memory, {before:.2f} with the uses alone")


def uses(random: np.random.Generator, n_words: int, n_uses: int, size: int) -> pandas.DataFrame:
    """Uses as `read_uses` gives them, with a cluster of each."""
    n = n_words * n_uses
    frame = pandas.DataFrame({"word": np.repeat([f"word{k}" for k in range(n_words)], n_uses)})
    frame["vector"] = list(random.standard_normal((n, size), dtype=np.float32))
    return frame.assign(cluster=random.integers(0, 5, n))


def memory() -> float:
    """The most that the process has used, in GiB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**30 if sys.platform == "darwin" else 2**20)


if __name__ == "__main__":
    main()
