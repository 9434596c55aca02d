"""
AllenNLP's users install with setup.py. It is also what requirements.txt, the lock, is made from:
see `make lock`.
"""

import os
import platform
from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, find_packages, setup


def kernels() -> list[Extension]:
    """
    The LSTM kernel, which is built against the installed PyTorch. Without a compiler its build
    fails with one line, and the package is installed without it. An isolated build has no PyTorch,
    so its wheel is pure Python.
    """
    torch = find_spec("torch")
    if torch is None or torch.origin is None or os.environ.get("ELMO_PLUGIN_KERNEL") == "0":
        return []
    if platform.machine() != "x86_64":
        return []
    folder = Path(torch.origin).parent
    return [
        Extension(
            # Its folder is not a package: what imports every module of one does not find it.
            "elmo_plugin.ops.csrc.lstm_scan",
            ["elmo_plugin/ops/csrc/lstm_scan.cpp"],
            include_dirs=[str(folder / "include")],
            library_dirs=[str(folder / "lib")],
            libraries=["torch_cpu", "c10"],
            # OpenMP is PyTorch's own, which is loaded by then: hence no -fopenmp for the linker.
            extra_compile_args=["-std=c++20", "-O3", "-g0", "-fopenmp"]
            + ["-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden", "-w"],
            optional=True,
        )
    ]


version: dict[str, str] = {}
exec(Path("elmo_plugin/version.py").read_text(), version)

setup(
    name="elmo_plugin",
    version=version["VERSION"],
    description="ELMo for AllenNLP on a current Python and PyTorch: train it, swap it in",
    long_description=Path("README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=find_packages(include=["elmo_plugin", "elmo_plugin.*"]),
    package_data={
        "elmo_plugin": ["py.typed"],
        "elmo_plugin.libsonnet": ["elmo.libsonnet"],
        "elmo_plugin.pretrained": ["*/*.json", "*/*.hdf5", "*/*.txt", "*/*.md"],
    },
    ext_modules=kernels(),
    python_requires=">=3.11,<3.12",
    install_requires=[
        "torch>=2.13",
        "cached-path>=1.5",
        "h5py>=3.6",
        "jsonnet>=0.20",
        "matplotlib>=3.8",
        "nltk>=3.8",
        "numpy>=1.26",
        "overrides>=7",
        "spacy>=3.8",
        "zstandard>=0.22",
        # AllenNLP 2.10.1, allennlp-models 2.10.1 and torchvision 0.15.2 are needed and not in this
        # list: their own pins exclude this torch, so that nothing could resolve it. They are
        # installed with --no-deps (`elmo_plugin/plugin/environment.py`). What follows is what they
        # need.
        # AllenNLP imports torchvision, of which nothing here is used. 0.15.2 registers no operators
        # when it is imported, so it loads next to any build of torch; later ones load only next to
        # the one that they were built for. It has no build for Python 3.12.
        "base58>=2.1.1",
        "conllu>=4.4.2",
        "datasets>=2",
        "dill>=0.3.4",
        "fairscale==0.4.6",
        "filelock>=3.12",
        "ftfy>=6",
        "huggingface-hub>=0.24",
        "lmdb>=1.4",
        "more-itertools>=8.12",
        "pillow>=4.1.1",
        "protobuf>=4",
        "py-rouge==1.1",
        "pytest>=7",
        "requests>=2.28",
        "sacremoses>=0.1",
        "scikit-learn>=1.3",
        "scipy>=1.11",
        "sentencepiece>=0.2",
        "tensorboardX>=2.6",
        "termcolor>=1.1",
        "tqdm>=4.62",
        "traitlets>5.1.1",
        "typer>=0.4.1",
        "wandb>=0.16",
        "word2number>=1.1",
        # py-rouge imports pkg_resources, which left setuptools with 81.
        "setuptools<81",
        # AllenNLP derives a class from transformers.AdamW, which 4.50 removed.
        "transformers>=4.48,<4.49",
    ],
    extras_require={
        "dev": ["hypothesis", "import-linter", "mypy", "pytest-xdist", "ruff", "types-tqdm"],
    },
    classifiers=[
        # What is tested; see torchvision above.
        "Programming Language :: Python :: 3.11",
        "Operating System :: POSIX :: Linux",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
