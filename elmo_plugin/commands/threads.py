"""The number of threads in a container that may use fewer processors than it sees."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import torch

logger = logging.getLogger(__name__)


def limit_threads(
    own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> None:
    """Let PyTorch use no more threads than the quota of this process's cgroups has processors."""
    if "OMP_NUM_THREADS" in os.environ or not own.exists():
        return
    before = torch.get_num_threads()
    threads = max(1, round(min(_quotas(own, root), default=before)))
    if threads < before:
        logger.warning("%d threads, the container's quota; OMP_NUM_THREADS sets another", threads)
        torch.set_num_threads(threads)


def _quotas(own: Path, root: Path) -> Iterator[float]:
    """The quotas of a process's cgroups and of those above them, in processors."""
    for line in own.read_text().splitlines():  # "0::/path", or "4:cpu,cpuacct:/path" in version 1
        _, controllers, path = line.split(":", 2)
        group = root / ("cpu" if "cpu" in controllers.split(",") else "") / path.lstrip("/")
        for folder in (group, *group.parents):
            for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
                files = [folder / name for name in names]
                if all(file.exists() for file in files):
                    quota, period = " ".join(file.read_text() for file in files).split()
                    if quota not in ("max", "-1"):
                        yield int(quota) / int(period)
