"""How candidates compete and how working sets become levels: no real timing in here."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofcast.profiler.ceilings.candidates import Candidate, best_stretch, sample_best
from roofcast.profiler.ceilings.working_set import Level, dram_set_bytes, levels, seen_levels, sweep_sizes
from roofcast.profiler.devices import Timing
from roofcast.profiler.machine import Cache, Machine

KIB, MIB = 1 << 10, 1 << 20


def machine(**changes: Any) -> Machine:
    values: dict[str, Any] = {
        "host": "h",
        "system": "Linux",
        "architecture": "x86_64",
        "cpu_model": "m",
        "cpu_vendor": "v",
        "logical_cores": 8,
        "affinity_cores": 8,
        "allowed_cores": 8,
        "simd_bits": 512,
        "memory_bytes": 64 << 30,
        "caches": (
            Cache(1, "data", 32 * KIB, 1),
            Cache(2, "unified", MIB, 1),
            Cache(3, "unified", 32 * MIB, 8),
        ),
    }
    return Machine(**(values | changes))


class Clockwork:
    """A device whose runs say how long they took."""

    name = "cpu"
    title = "clockwork"

    def sampler(self, runs: Sequence[Callable[[], Any]]) -> Callable[[], Timing]:
        return lambda: Timing(sum(run() for run in runs))

    def synchronise(self) -> None:
        pass

    def shortest_s(self) -> float:
        return 1e-4


def ticking(times: Sequence[float]) -> Callable[[], float]:
    state = {"at": -1}

    def run() -> float:
        state["at"] += 1
        return times[state["at"] % len(times)]

    return run


def test_the_fastest_candidate_wins_and_the_greatest_rate_is_kept() -> None:
    slow = Candidate("slow", ticking([2.0]), 100.0)
    fast = Candidate("fast", ticking([1.0, 1.1, 1.0]), 100.0)
    odd = Candidate("odd", ticking([1.5, 1.5, 1.5]), 100.0)
    rates = sample_best([slow, odd, fast], Clockwork(), 0.05)  # type: ignore[arg-type]
    assert rates.winner.label == "fast"
    assert rates.value == pytest.approx(100.0)
    assert rates.high == pytest.approx(100.0)
    assert rates.low <= rates.value <= rates.high
    assert min(rates.samples) == pytest.approx(100 / 1.1)


def test_rates_count_work_not_calls() -> None:
    large = Candidate("large", ticking([1.0]), 300.0)
    small = Candidate("small", ticking([0.5]), 100.0)
    assert sample_best([small, large], Clockwork(), 0.05).winner.label == "large"  # type: ignore[arg-type]


def test_short_calls_are_batched() -> None:
    rates = sample_best([Candidate("short", ticking([1e-5]), 1.0)], Clockwork(), 0.05)  # type: ignore[arg-type]
    assert rates.value == pytest.approx(1e5)


def test_latency_is_time_per_step_and_its_best_is_low() -> None:
    chase = Candidate("chase", ticking([1.0, 1.3, 1.2]), 10.0)
    rates = sample_best([chase], Clockwork(), 0.05, per_step=True)  # type: ignore[arg-type]
    assert rates.low == pytest.approx(0.1)
    assert rates.low <= rates.value <= rates.high


def test_a_machine_slowed_all_the_while_is_called_unsteady() -> None:
    times = [1.0] * 20 + [9.0] * 10_000
    rates = sample_best([Candidate("k", ticking(times), 1.0)], Clockwork(), 0.01)  # type: ignore[arg-type]
    assert rates.high == pytest.approx(1.0)
    if rates.value < 0.5:
        assert "unsteady" in rates.stop_reason


def test_a_disturbed_stretch_does_not_lower_the_value() -> None:
    assert best_stretch([10.0] * 30 + [1.0, 1.1] * 10).median == pytest.approx(1.05)


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=200))
def test_best_stretch_is_an_interval_of_the_samples(times: list[float]) -> None:
    interval = best_stretch(times)
    assert min(times) <= interval.low <= interval.median <= interval.high <= max(times)


def test_levels_by_size() -> None:
    one = levels(machine(), 1)
    assert [(level.name, level.set_bytes) for level in one] == [
        ("l1", 16 * KIB),
        ("l2", 512 * KIB),
        ("llc", 16 * MIB),
        ("dram", 128 * MIB),
    ]
    assert [level.capacity_bytes for level in levels(machine(), 8)] == [256 * KIB, 8 * MIB, 32 * MIB, None]


def test_a_cache_hidden_by_the_one_before_it_is_left_out() -> None:
    flat = machine(
        caches=(Cache(1, "data", 48 * KIB, 1), Cache(2, "unified", 2 * MIB, 1), Cache(3, "unified", 3 * MIB, 8))
    )
    assert [level.name for level in levels(flat, 1)] == ["l1", "l2", "dram"]
    assert [level.name for level in levels(machine(caches=()), 4)] == ["dram"]


def test_main_memory_set_exceeds_all_caches_and_fits_the_memory() -> None:
    server = machine(
        logical_cores=192, allowed_cores=192, memory_bytes=1 << 40, caches=(Cache(3, "unified", 32 * MIB, 16),)
    )
    assert dram_set_bytes(server) == 4 * 12 * 32 * MIB
    assert dram_set_bytes(machine(memory_bytes=512 * MIB)) * 3 <= 512 * MIB // 4
    sizes = sweep_sizes(machine(), 2)
    assert sizes == sorted(sizes)
    assert sizes[0] == 16 * KIB
    assert sizes[-1] == 128 * MIB


def test_a_level_is_named_only_if_its_knee_is_seen() -> None:
    known = levels(machine(), 1)

    def rate(size: int, l1: float, l2: float, llc: float) -> float:
        return l1 if size <= 32 * KIB else l2 if size <= MIB else llc if size <= 32 * MIB else 30.0

    sizes = sweep_sizes(machine(), 1)
    clear = [(size, rate(size, 200, 100, 60)) for size in sizes]
    assert [level.name for level in seen_levels(known, clear)] == ["l1", "l2", "llc", "dram"]
    no_llc = [(size, rate(size, 200, 100, 31)) for size in sizes]
    assert [level.name for level in seen_levels(known, no_llc)] == ["l1", "l2", "dram"]
    no_l2 = [(size, rate(size, 200, 62, 60)) for size in sizes]
    assert [level.name for level in seen_levels(known, no_l2)] == ["l1", "llc", "dram"]
    flat = [(size, 30.0) for size in sizes]
    assert seen_levels(known, flat) == [Level("dram", 128 * MIB)]


def test_the_set_of_a_level_lies_inside_it() -> None:
    known = levels(machine(), 1)
    sweep = [(size, 100.0 if size <= MIB else 60.0 if size <= 32 * MIB else 30.0) for size in sweep_sizes(machine(), 1)]
    l2, llc, _ = seen_levels(known, sweep)
    assert 32 * KIB < l2.set_bytes < MIB < llc.set_bytes < 32 * MIB
