"""What the operating system lets this process use: cores by affinity and quota, memory by limit."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path

from .host_text import read_text

# cgroup v1 writes "no limit" as the largest multiple of the page size below 2**63.
_UNLIMITED_V1 = 1 << 60


def affinity_cores() -> int:
    """Return the number of logical cores this process may be scheduled on."""
    if hasattr(os, "sched_getaffinity"):
        with contextlib.suppress(OSError):
            return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the CPU time per wall-clock time that the control groups grant, in cores; None without a limit.

    Reads version 2 (``cpu.max``) and version 1 (``cpu.cfs_quota_us``), in the group of this process and in every
    group above it, for the smallest binds. ``root`` replaces ``/`` in tests.
    """
    found = [_quota_v2(read_text(folder / "cpu.max")) for folder in _folders(root, "")]
    found += [
        _ratio(read_text(folder / "cpu.cfs_quota_us"), read_text(folder / "cpu.cfs_period_us"))
        for folder in _folders(root, "cpu")
    ]
    return min((quota for quota in found if quota is not None), default=None)


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """Return the smallest memory limit of the control groups of this process, in bytes; None without a limit."""
    texts = [read_text(folder / "memory.max") for folder in _folders(root, "")]
    texts += [read_text(folder / "memory.limit_in_bytes") for folder in _folders(root, "memory")]
    limits = [int(text) for text in texts if text.isdigit() and 0 < int(text) < _UNLIMITED_V1]
    return min(limits, default=None)


def allowed_cores(root: Path = Path("/")) -> int:
    """Return how many threads to measure with: cores by affinity, at most the quota, at least one.

    A quota of 2.5 cores allows 2: a third thread would be stopped in the middle of a sample.
    """
    cores = affinity_cores()
    quota = cpu_quota(root)
    return cores if quota is None else max(1, min(cores, math.floor(quota)))


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's group and of the groups above it ("" is version 2)."""
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if controller not in names.split(",") if controller else names:
            continue
        for mount in _mounts(root, names):
            # Inside a container the path may be one of the host's that is not visible here: parents and mount remain.
            relative = Path(path.lstrip("/"))
            for folder in (relative, *relative.parents):
                if ".." not in folder.parts and (mount / folder).is_dir():
                    yield mount / folder


def _mounts(root: Path, names: str) -> list[Path]:
    base = root / "sys/fs/cgroup"
    if not names:
        return [path for path in (base, base / "unified") if path.is_dir()]
    return [base / name for name in dict.fromkeys([names, *names.split(",")]) if (base / name).is_dir()]


def _quota_v2(text: str) -> float | None:
    quota, _, period = text.partition(" ")
    return _ratio(quota, period or "100000")


def _ratio(quota: str, period: str) -> float | None:
    if not (quota.isdigit() and period.isdigit()) or int(quota) == 0 or int(period) == 0:
        return None
    return int(quota) / int(period)
