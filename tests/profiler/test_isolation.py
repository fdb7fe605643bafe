"""Each case in a worker process: whatever it does is one row."""

import dataclasses
import os
import signal
import time

import psutil
import pytest
from roofcast.profiler.isolation import sessions_in_workers
from roofcast.profiler.measuring import measure

GIB = 1 << 30


def _rows(cases, settings):
    return {row.implementation: row for row in measure(cases, settings, open_sessions=sessions_in_workers)}


def test_every_kind_of_death_is_a_row(toy, fast):
    rows = _rows(toy("segfaults", "exits", "raises", "interrupt", "noisy", "forks", "double", "late"), fast)
    assert {name: row.status for name, row in rows.items()} == {
        "segfaults": "crashed",
        "exits": "crashed",
        "raises": "crashed",
        "interrupt": "crashed",
        "noisy": "ok",
        "forks": "ok",
        "double": "ok",
        "late": "incorrect",
    }
    assert "SIGSEGV while preparing and checking" in rows["segfaults"].message
    assert "exit code 3" in rows["exits"].message
    assert rows["double"].median_s > 0
    assert rows["double"].method["round_sizes"]


def test_hang_ends_at_the_time_limit(toy, fast):
    start = time.monotonic()
    row = _rows(toy("hangs"), dataclasses.replace(fast, timeout_s=3))["hangs"]
    assert row.status == "timeout"
    assert "within 3 s" in row.message
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(("name", "says"), [("hog", "allocate"), ("hog_shared", "the limit is 0.50 GiB")])
def test_memory_limit(toy, fast, name, says):
    row = _rows(toy(name), dataclasses.replace(fast, memory_limit_bytes=GIB // 2))[name]
    assert row.status == "out_of_memory"
    assert says in row.message


def test_killed_worker_is_taken_for_lack_of_memory(toy, fast):
    sessions = []

    def open_sessions(cases, settings):
        sessions.extend(sessions_in_workers(cases, settings))
        return sessions

    def kill(case, stage):
        if stage == "sampling":
            os.kill(sessions[0]._process.pid, signal.SIGKILL)

    (row,) = measure(toy("double"), fast, open_sessions=open_sessions, on_stage=kill)
    assert row.status == "out_of_memory"
    assert "killed while sampling" in row.message


def test_an_interrupted_run_leaves_no_process(toy, fast):
    def interrupt(case, stage):
        if stage == "sampling" and case.implementation == "slow":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(measure(toy("double", "slow"), fast, open_sessions=sessions_in_workers, on_stage=interrupt))
    assert _live_children() == []


def _live_children():
    return [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]


def test_nothing_outlives_the_run(toy, fast):
    _rows(toy("forks", "hangs"), dataclasses.replace(fast, timeout_s=3))
    assert _live_children() == []
