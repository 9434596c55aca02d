"""What Windows lacks is not needed. The functions and modules are taken away in a process of its
own; that the package then works on Windows is not tested."""

from pathlib import Path

from tests.conftest import python, without

UNIX_ONLY = ("fcntl", "grp", "pwd", "resource", "termios")

LIKE_WINDOWS = (
    "import filelock, h5py, numpy, torch"  # they see which system it is, and know Windows
    + without(*UNIX_ONLY)
    + f"for name in {UNIX_ONLY}:\n    sys.modules.pop(name, None)"
    + """
import os
for name in ("register_at_fork", "fork", "getuid", "uname", "sched_getaffinity"):
    delattr(os, name)
synchronize = os.fsync
def fsync(number):
    with open(f"/proc/self/fdinfo/{number}") as info:
        flags = next(int(line.split()[1], 8) for line in info if line.startswith("flags:"))
    if flags & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(9, "Bad file descriptor")
    synchronize(number)
os.fsync = fsync
def of_closed(function):
    def called(file, *others, **options):
        numbers = [int(x) for x in os.listdir("/proc/self/fd")]
        if any(os.path.samestat(os.stat(file), os.stat(x)) for x in numbers if exists(x)):
            raise PermissionError(13, "The process cannot access the file", str(file))
        return function(file, *others, **options)
    return called
def exists(number):
    try:
        return bool(os.fstat(number))
    except OSError:
        return False
for name in ("replace", "rename", "unlink", "remove"):
    setattr(os, name, of_closed(getattr(os, name)))
"""
)


def test_what_windows_lacks_is_not_needed(tmp_path: Path) -> None:
    """A saved model gives the vectors of the one that was saved, also through the cache on disk,
    and commands write whole files, with locks and in parts."""
    (tmp_path / "text").write_text("The dog ran .\nA stick .\n")
    python(
        "-c",
        f"""{LIKE_WINDOWS}
from elmo_plugin import Elmo
from elmo_plugin.commands.runner import run_program
elmo = Elmo.from_pretrained("small")
expected = elmo.embed("The dog ran .")
elmo.save("saved")
for _ in range(2):
    saved = Elmo.from_archive("saved", cache_dir="cache")
    assert abs(saved.embed("The dog ran .") - expected).max() < 1e-6
assert run_program("elmo", ["text", "vectors", "--top", "--archive-file", "saved"]) is None
assert run_program("score", ["text", "--output-file", "scores", "--pretrained", "tiny"]) is None
""",
        folder=tmp_path,
    )
    assert (tmp_path / "cache").exists()
    assert all((tmp_path / name).stat().st_size > 100 for name in ("vectors", "scores"))
