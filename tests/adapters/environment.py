"""
A Python environment with the libraries of the adapters and without AllenNLP, whose own pins exclude
flair's. It is made once, in the folder for temporary files, and used again:

    python -m tests.adapters.environment
"""

import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = [
    *("torch==2.13.0", "flair==0.15.1", "spacy==3.8.18", "scikit-learn==1.9.1"),
    *("h5py", "tqdm"),
]
VERSION = ".".join(map(str, sys.version_info[:2]))
FOLDER = Path(tempfile.gettempdir()) / f"elmo_plugin_adapters_{VERSION}"


def environment() -> Path:
    """The environment's Python. Raises a `RuntimeError` with what pip printed if it fails."""
    python, finished = FOLDER / "bin" / "python", FOLDER / "packages"
    wanted = "\n".join(PACKAGES)
    if not finished.exists() or finished.read_text() != wanted:
        for command in (
            [sys.executable, "-m", "venv", "--clear", FOLDER],
            [python, "-m", "pip", "install", "-q", *PACKAGES],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{FOLDER}: {done.stderr.strip()[-500:]}")
        finished.write_text(wanted)
    return python


if __name__ == "__main__":
    print(environment())
