"""The jsonnet library of the package."""

from pathlib import Path

LIBRARY = Path(__file__).parent / "elmo.libsonnet"
