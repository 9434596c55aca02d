"""
AllenNLP's users install with setup.py. Its own pins no longer resolve on a supported Python, so the
dependencies here come in through requirements.txt with `pip install --no-deps`: see the README.
"""

from pathlib import Path

from setuptools import find_packages, setup

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
