"""Threads: one count for every backend, workers pinned to a core each."""

import os
import subprocess
import sys
import threading

import pytest
from roofcast.profiler.cpu_device import core_ids
from roofcast.profiler.machine import allowed_cores
from roofcast.profiler.threads import pin_workers, thread_ids

COUNT = """
import os
from roofcast.profiler.threads import configure_threads
assert configure_threads(1) == 1
import numba, numpy, torch
assert numba.get_num_threads() == torch.get_num_threads() == 1, (numba.get_num_threads(), torch.get_num_threads())
assert configure_threads() >= 1
assert torch.get_num_threads() == configure_threads()
"""


def test_backends_get_the_same_threads():
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not thread_ids(), reason="the system does not list threads")
def test_workers_are_pinned_and_the_main_thread_is_not():
    before, stop = thread_ids(), threading.Event()
    worker = threading.Thread(target=stop.wait)
    worker.start()
    try:
        started = thread_ids() - before
        assert pin_workers(started) == 1
        assert os.sched_getaffinity(started.pop()) == {core_ids()[-1]}
        assert sorted(os.sched_getaffinity(0)) == core_ids()
        assert pin_workers(set()) == 0
        assert pin_workers(set(range(1, allowed_cores() + 100))) == 0
    finally:
        stop.set()
        worker.join()
