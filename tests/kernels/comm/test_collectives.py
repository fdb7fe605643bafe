"""comm.*: every collective against numpy, its cost, ranks that die, and ranks whose parent dies."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from roofcast.kernels import WorkloadError, get_implementation, get_operator, make_workload
from roofcast.kernels.comm.ranks import RankError, Ranks, ranks_of

NAMES = ("all_reduce", "all_gather", "all_to_all", "broadcast")


def _inputs(name: str, seed: int = 0, **fields: Any) -> Any:
    return get_operator(f"comm.{name}").make_inputs(make_workload(f"comm.{name}", fields), seed)


@pytest.mark.parametrize("name", NAMES)
def test_against_the_reference(name: str) -> None:
    operator = get_operator(f"comm.{name}")
    for ranks in (2, 3):
        parts = ranks if name in ("all_gather", "all_to_all") else 1
        for elements in (parts, 13 * parts, 127 * parts):
            for precision in ("fp32", "bf16"):
                inputs = _inputs(name, elements, ranks=ranks, elements=elements, precision=precision)
                prepared = get_implementation(f"comm.{name}", "torch").prepare(inputs, "cpu")
                for _ in range(2):  # a second run begins from the same buffers
                    prepared.run()
                result = operator.check(prepared.output(), inputs)
                assert result.ok, f"{inputs.workload.label()}: {result.message}"


def test_all_to_all_by_hand() -> None:
    inputs = _inputs("all_to_all", ranks=2, elements=4)
    inputs.arrays["data"][:] = [[0, 1, 2, 3], [10, 11, 12, 13]]
    prepared = get_implementation("comm.all_to_all", "torch").prepare(inputs, "cpu")
    prepared.run()
    np.testing.assert_array_equal(prepared.output()["out"], [[0, 1, 10, 11], [2, 3, 12, 13]])


def test_wrong_outputs_are_refused() -> None:
    for name in NAMES:
        operator, inputs = get_operator(f"comm.{name}"), _inputs(name, ranks=2, elements=8)
        right = operator.reference(inputs)["out"]
        assert operator.check({"out": right}, inputs).ok
        wrong = right.copy()
        wrong[1, 3] *= 1.001
        assert not operator.check({"out": wrong}, inputs).ok
        assert not operator.check({"out": right[:1]}, inputs).ok


@pytest.mark.parametrize(
    ("name", "sent", "read", "written"),
    [("all_reduce", 1.5, 4096, 4096), ("all_gather", 0.75, 1024, 4096), ("all_to_all", 0.75, 4096, 4096),
     ("broadcast", 1.0, 4096, 4096)],
)  # fmt: skip
def test_cost_by_hand(name: str, sent: float, read: int, written: int) -> None:
    operator = get_operator(f"comm.{name}")
    cost = operator.cost(make_workload(f"comm.{name}", {"ranks": 4, "elements": 1024}))
    assert cost.link_bytes == sent * 4096
    assert cost.read_bytes["dram"] == read
    assert cost.write_bytes["dram"] == written
    assert cost.total_flops == (768 if name == "all_reduce" else 0)


def test_a_rank_that_dies_is_an_error_and_new_ones_begin() -> None:
    inputs = _inputs("all_reduce", ranks=2, elements=64)
    prepare = get_implementation("comm.all_reduce", "torch").prepare
    prepared = prepare(inputs, "cpu")
    ranks = ranks_of(2)
    folder = ranks.folder
    ranks.processes[1].kill()
    with pytest.raises(RankError, match=r"rank \d of 2 has ended"):
        prepared.run()
    assert all(process.poll() is not None for process in ranks.processes)
    assert not folder.exists()
    again = prepare(inputs, "cpu")
    again.run()
    assert get_operator("comm.all_reduce").check(again.output(), inputs).ok


def test_what_is_no_longer_needed_is_forgotten_before_the_next_command() -> None:
    inputs = _inputs("broadcast", ranks=2, elements=8)
    prepare = get_implementation("comm.broadcast", "torch").prepare
    prepared = prepare(inputs, "cpu")
    prepared.run()
    prepared.output()
    folder = ranks_of(2).folder
    assert len(list(folder.glob("out*"))) == 2
    del prepared
    prepare(inputs, "cpu").run()
    assert not list(folder.glob("out*"))


def test_an_interrupted_command_ends_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(2)

    def interrupted(wait_s: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ranks, "_await", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ranks.tell("empty")
    assert all(process.poll() is not None for process in ranks.processes)
    assert not ranks.folder.exists()
    with pytest.raises(RankError, match="have been ended"):
        ranks.tell("empty")


def test_a_rank_that_hangs_is_an_error() -> None:
    ranks = Ranks(2)
    os.kill(ranks.processes[1].pid, signal.SIGSTOP)
    with pytest.raises(RankError, match=r"has not answered for 0\.5 s"):
        ranks.tell("empty", wait_s=0.5)
    assert all(process.poll() is not None for process in ranks.processes)


def test_no_rank_outlives_its_parent() -> None:
    script = (
        "import sys, time\n"
        "from roofcast.kernels.comm.ranks import Ranks\n"
        "ranks = Ranks(2)\n"
        "print(ranks.folder, *[p.pid for p in ranks.processes], flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    folder, *pids = parent.stdout.readline().split()
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and (any(map(_runs, pids)) or os.path.exists(folder)):  # noqa: PTH110
        time.sleep(0.05)
    assert not any(map(_runs, pids))
    assert not os.path.exists(folder)  # noqa: PTH110


def _runs(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    # An orphan that has ended may wait for the first process to collect it.
    state = subprocess.run(["ps", "-o", "state=", "-p", pid], capture_output=True, text=True, check=False).stdout
    return not state.strip().startswith("Z")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"ranks": 1}, "ranks"),
        ({"ranks": 100}, "ranks"),
        ({"elements": 0}, "elements"),
        ({"precision": "fp8"}, "precision"),
    ],
)
def test_impossible_workloads_are_refused(fields: dict[str, Any], field: str) -> None:
    for name in NAMES:
        with pytest.raises(WorkloadError, match=field):
            make_workload(f"comm.{name}", fields)
    for name in ("all_gather", "all_to_all"):
        with pytest.raises(WorkloadError, match="multiple of ranks = 3"):
            make_workload(f"comm.{name}", {"ranks": 3, "elements": 4})
