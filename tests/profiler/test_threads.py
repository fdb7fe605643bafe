"""Threads: one count for every backend, workers pinned to a core each."""

import os
import subprocess
import sys
import threading

import pytest
from roofcast.profiler.cpu_device import core_ids
from roofcast.profiler.machine import allowed_cores
from roofcast.profiler.measuring import measure
from roofcast.profiler.session import LocalSession
from roofcast.profiler.threads import main_thread_pinned, pin_workers, thread_ids

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


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not pin threads")
def test_the_main_thread_is_pinned_for_a_while():
    before = os.sched_getaffinity(0)
    with main_thread_pinned(True) as pinned:
        assert pinned
        assert os.sched_getaffinity(0) == {core_ids()[0]} == {min(before)}
    assert os.sched_getaffinity(0) == before
    with pytest.raises(ValueError, match="a case"), main_thread_pinned(True):
        raise ValueError("a case")
    assert os.sched_getaffinity(0) == before
    with main_thread_pinned(False) as pinned:
        assert not pinned


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not pin threads")
def test_a_call_that_pinning_slows_is_left_free(monkeypatch, toy, fast):
    assert LocalSession._bears_pinning(lambda: 1.0, 1.0)
    assert not LocalSession._bears_pinning(lambda: 2.0, 1.0)
    seen = []
    monkeypatch.setattr(LocalSession, "_bears_pinning", lambda self, sample, free_s: seen.append(free_s) or True)
    (row,) = measure(toy("double"), fast)
    assert row.method["main_thread_pinned"] is True
    assert seen
    assert row.status == "ok"
