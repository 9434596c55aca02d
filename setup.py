"""
AllenNLP's users install with setup.py. Its own pins no longer resolve on a supported Python, so the
dependencies here come in through requirements.txt with `pip install --no-deps`: see the README.
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
        "elmo_plugin.libsonnet": ["elmo.libsonnet"],
        "elmo_plugin.pretrained": ["*/*.json", "*/*.hdf5", "*/*.txt", "*/*.md"],
    },
    ext_modules=kernels(),
    python_requires=">=3.11",
    install_requires=[
        "torch",
        "allennlp==2.10.1",
        "allennlp-models==2.10.1",
        "cached-path",
        "jsonnet",
        "nltk",
        "overrides",
        "h5py",
        "numpy",
        "matplotlib",
        "spacy",
        "zstandard",
    ],
    classifiers=[
        # What is tested. AllenNLP imports torchvision, whose one release that stands beside any
        # build of PyTorch has no package for a later Python.
        "Programming Language :: Python :: 3.11",
        "Operating System :: POSIX :: Linux",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
