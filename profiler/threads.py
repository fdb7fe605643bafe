"""Give every CPU backend the same threads, each on a core of its own."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from .cpu_device import core_ids
from .machine import allowed_cores

_TASKS = Path("/proc/self/task")
_COUNT_VARIABLES = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def configure_threads(threads: int | None = None) -> int:
    """Set the number of threads of Numba and torch, loaded or still to be loaded, and return it.

    Libraries that start later read it from the environment; those that run already are told.
    """
    count = threads or allowed_cores()
    for variable in _COUNT_VARIABLES:
        os.environ[variable] = str(count)
    if "numba" in sys.modules:
        import numba

        # The pool's size was fixed when Numba was loaded; it can only be used in part.
        most = int(vars(sys.modules["numba.core.config"])["NUMBA_NUM_THREADS"])
        numba.set_num_threads(min(count, most))
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(count)
    return count


def thread_ids() -> set[int]:
    """Return the kernel's ids of this process's threads; empty where the system does not tell."""
    try:
        return {int(entry.name) for entry in _TASKS.iterdir()}
    except OSError:
        return set()


def pin_workers(threads: set[int]) -> int:
    """Pin the worker threads that a backend started to one core each and return how many were pinned.

    The main thread stays free, since threads that it starts later would inherit its core. A pool of one thread
    fewer than cores works together with the main thread, which then finds the core left over: cores are given
    from the last one.
    """
    cores = core_ids()
    started = sorted(threads - {os.getpid()})
    if not started or len(started) > len(cores):
        return 0
    pinned = 0
    for thread, core in zip(started, reversed(cores), strict=False):
        try:
            os.sched_setaffinity(thread, {core})
        except (AttributeError, OSError):
            continue
        pinned += 1
    return pinned


@contextlib.contextmanager
def main_thread_pinned(pin: bool) -> Iterator[bool]:
    """Keep the calling thread on the first core for a while and yield whether it is so.

    That is the core which `pin_workers` leaves over. Before and after it is free, for threads that it starts would
    inherit the core.
    """
    cores = core_ids()
    pinned = False
    if pin and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {cores[0]})
            pinned = True
    try:
        yield pinned
    finally:
        if pinned:
            os.sched_setaffinity(0, set(cores))
