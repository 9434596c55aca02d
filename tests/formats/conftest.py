"""Models and numbers of other programs, which are next to the checkout if they are there."""

from pathlib import Path

import pytest

from tests.conftest import SHARED_DATA, untar


@pytest.fixture(scope="session")
def shared_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what is in the two files."""
    folder = tmp_path_factory.mktemp("shared")
    for name in ("golden.tar.xz", "formats.tar.xz"):
        if not (SHARED_DATA / name).exists():
            pytest.skip(f"needs {name}, models and numbers of other programs, which is not here")
        untar(SHARED_DATA / name, folder)
    return folder
