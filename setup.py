"""
Declares the package and its dependencies. `make lock` makes requirements.txt from it.
"""

import os
import platform
import re
import runpy
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError, LinkError

OPS = Path("elmo_plugin/ops")
# Not a package, so that importing all modules of a package skips it.
COMPILED = OPS / "compiled"
# No -fopenmp for the linker: PyTorch's OpenMP is already loaded.
FLAGS = ["-std=c++20", "-O3", "-g0", "-fopenmp", "-fno-math-errno", "-fno-trapping-math"]
FLAGS += ["-fvisibility=hidden", "-w"]
OUTSIDE = ["elmo_plugin_imports", "elmo_plugin_spacy"]
"""Modules outside the package, for programs that look up entry points."""
PROBE = "#include <bit>\n#include <omp.h>\n"
"""Headers that the kernels need of a compiler: C++20 and OpenMP."""


def kernels() -> list[Extension]:
    """
    The compiled kernels, built against the installed PyTorch. An isolated build has no PyTorch, so
    its wheel is pure Python.
    """
    torch = find_spec("torch")
    is_off = os.environ.get("ELMO_PLUGIN_KERNEL") == "0" or platform.machine() != "x86_64"
    if torch is None or torch.origin is None or is_off:
        return []
    folder = Path(torch.origin).parent
    return [
        Extension(
            ".".join([*COMPILED.parts, "kernels"]),
            [str(file) for file in sorted(OPS.glob("*/kernel.cpp"))],
            depends=[str(OPS / "kernels.h")],
            define_macros=[("ELMO_PLUGIN_SOURCES", f'"{sources_digest()}"')],
            include_dirs=[str(OPS), str(folder / "include")],
            library_dirs=[str(folder / "lib")],
            libraries=["torch_cpu", "c10"],
            extra_compile_args=FLAGS,
        )
    ]


class BuildModules(build_py):
    """
    Removes modules of an earlier build that the package no longer has, and kernels of an earlier
    installation. An editable installation gets copies of the modules that PyTorch and spaCy import,
    so that they work without this folder.
    """

    def run(self) -> None:
        if self.editable_mode:
            environment = self.get_finalized_command("install").install_lib
            for name in OUTSIDE:
                self.copy_file(f"{name}.py", environment)
            for file in COMPILED.glob(f"kernels{sysconfig.get_config_var('EXT_SUFFIX')}*"):
                file.unlink()
        else:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class BuildKernels(build_ext):
    """Without a compiler, nothing is built; with one, a failed build is an error."""

    def build_extensions(self) -> None:
        with TemporaryDirectory() as folder:
            probe = Path(folder) / "probe.cpp"
            probe.write_text(PROBE)
            try:
                self.compiler.compile([str(probe)], output_dir=folder, extra_postargs=FLAGS)
            except CompileError as error:
                self.extensions = []
                print(f"No C++20 compiler with OpenMP, so no compiled kernels: {error}")
                return
        try:
            super().build_extensions()
        except (CompileError, LinkError):
            sys.exit(
                "The compiled kernels could not be built; the compiler's message is above. With "
                "ELMO_PLUGIN_KERNEL=0 the package is installed without them."
            )

    def copy_file(self, infile: Any, outfile: Any, *args: Any, **kwargs: Any) -> Any:
        """Copy to the source folder, atomically."""
        Path(outfile).parent.mkdir(parents=True, exist_ok=True)
        copied = super().copy_file(infile, f"{outfile}.tmp", *args, **kwargs)
        os.replace(f"{outfile}.tmp", outfile)
        return copied


def long_description() -> str:
    """
    The README as PyPI can show it, which has none of its pictures and files: relative links become
    their text, and pictures are left out.
    """
    relative = r"\]\((?!https?:)[^)\s]+\)"
    text = re.sub(rf"!\[[^\]]*{relative}\s*", "", Path("README.md").read_text("utf-8"))
    return re.sub(rf"\[([^\]]*){relative}", r"\1", text)


sources_digest = runpy.run_path("elmo_plugin/ops/kernel_sources.py")["sources_digest"]
VERSION = runpy.run_path("elmo_plugin/version.py")["VERSION"]

setup(
    name="elmo_plugin",
    version=VERSION,
    description="ELMo on a current Python and PyTorch, and in any AllenNLP config",
    long_description=long_description(),
    long_description_content_type="text/markdown",
    author="The elmo_plugin authors",
    license="Apache-2.0",
    packages=find_packages(include=["elmo_plugin", "elmo_plugin.*", "allennlp_today"]),
    # An editable installation then adds this folder to `sys.path`. Otherwise, setuptools installs a
    # finder, which Python asks last: in the folder above a clone with the name of the package, the
    # clone itself would be imported, as a namespace package.
    package_dir={"": "."},
    py_modules=OUTSIDE,
    package_data={
        "elmo_plugin": ["py.typed", "training_configs/*.jsonnet", "training_configs/*/*sonnet"],
        "allennlp_today": ["py.typed"],
        "elmo_plugin.pretrained": ["*/*.json", "*/*.hdf5", "*/*.txt", "*/*.md"],
    },
    ext_modules=kernels(),
    cmdclass={"build_py": BuildModules, "build_ext": BuildKernels},
    python_requires=">=3.11,<3.15",
    # The dependencies of feature extraction, with the oldest and newest tested PyTorch.
    install_requires=["torch>=2.12,<2.16", "h5py>=3.6", "numpy>=1.26", "tqdm>=4.62"],
    extras_require={
        # AllenNLP 2.10.1 and allennlp-models 2.10.1 are not listed, because their own pins exclude
        # this torch. They are installed with --no-deps (`allennlp_today/environment.py`); the
        # list has their dependencies and the plugin's.
        "allennlp": [
            "base58>=2.1.1",
            "cached-path>=1.5",
            "conllu>=4.4.2",
            "datasets>=2",
            "dill>=0.3.4",
            "fairscale==0.4.6",
            "filelock>=3.13",
            "ftfy>=6",
            "google-crc32c>=1.5",
            # transformers wants this too; without it, pip 23.0 tries all versions of everything.
            "huggingface-hub>=0.24,<1",
            "jsonnet>=0.20",
            "lmdb>=1.4",
            "matplotlib>=3.8",
            "more-itertools>=8.12",
            "nltk>=3.8",
            "nupunkt>=0.8",
            "overrides>=7",
            "protobuf>=4",
            "py-rouge==1.1",
            "requests>=2.28",
            "sacremoses>=0.1",
            "scikit-learn>=1.3",
            "scipy>=1.11",
            "sentencepiece>=0.2",
            "spacy>=3.8",
            "tensorboardX>=2.6",
            "termcolor>=1.1",
            "thinc>=8.3",
            "traitlets>5.1.1",
            "typer>=0.4.1",
            "word2number>=1.1",
            "zstandard>=0.22",
            # py-rouge imports pkg_resources, which setuptools 81 removed.
            "setuptools<81",
            # AllenNLP subclasses transformers.AdamW, which 4.50 removed.
            "transformers>=4.45,<4.50",
        ],
        # What the pages for linguists use: tables, raw text, clusters and pictures.
        "linguistics": [
            "matplotlib>=3.8",
            "nltk>=3.8",
            "nupunkt>=0.8",
            "pandas>=2",
            "scikit-learn>=1.3",
        ],
        "dev": [
            "hypothesis",
            "import-linter",
            "mypy",
            "pytest",
            "pytest-xdist",
            "ruff",
            "types-tqdm",
            "wandb",  # for the callback's test; also a dependency of AllenNLP
        ],
    },
    entry_points={
        # PyTorch calls this when it is imported.
        "torch.backends": ["elmo_plugin = elmo_plugin_imports:install"],
        # spaCy imports this when it makes a pipeline, or a model with this layer.
        "spacy_factories": ["elmo = elmo_plugin_spacy:make_elmo"],
        "spacy_architectures": ["elmo_plugin.ElmoTok2Vec.v1 = elmo_plugin_spacy:make_tok2vec"],
    },
    classifiers=[
        # Tested versions.
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Operating System :: POSIX :: Linux",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
