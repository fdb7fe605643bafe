"""Rows get their roofs; rows above a roof are refused with the likely cause."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from roofcast.kernels.contract import Cost
from roofcast.profiler.schema import CeilingRow, MachineState, Measurement
from roofcast.roofline.ceilings import from_rows
from roofcast.roofline.judge import judge

READS = Cost(read_bytes={"dram": 50e6}, write_bytes={"dram": 0.0})
Rows = Callable[..., Measurement]
Limits = Callable[..., CeilingRow]


def _judge(row: Measurement, *limits: CeilingRow, llc: float = 1e6) -> Measurement:
    return judge(from_rows(limits, capacities={"llc": llc}))(row)


def test_a_row_below_its_roof_passes(measurement: Rows, ceiling: Limits) -> None:
    row = _judge(measurement(time_s=2e-3, cost=READS), ceiling("dram.read", 50e9, "bytes/s"))
    assert row.status == "ok"
    assert row.roofs_s == {"dram.read": pytest.approx(1e-3)}
    assert row.bound_by == "dram.read"
    assert row.fraction_of_roof == pytest.approx(0.5)


def test_a_row_within_the_intervals_passes(measurement: Rows, ceiling: Limits) -> None:
    row = _judge(measurement(time_s=0.98e-3, cost=READS), ceiling("dram.read", 50e9, "bytes/s"))
    assert row.status == "ok"
    assert row.fraction_of_roof is not None
    assert row.fraction_of_roof > 1


def test_a_row_beyond_the_intervals_is_refused(measurement: Rows, ceiling: Limits) -> None:
    row = _judge(measurement(time_s=0.5e-3, cost=READS), ceiling("dram.read", 50e9, "bytes/s"))
    assert row.status == "above_roof"
    assert "dram.read" in row.message
    assert "likely cause" in row.message


def test_a_wide_interval_excuses_little(measurement: Rows, ceiling: Limits) -> None:
    limit = ceiling("dram.read", 50e9, "bytes/s")
    wide = {"cost": READS, "ci95_low_s": 0.5e-3, "ci95_high_s": 2e-3}
    assert _judge(measurement(time_s=0.96e-3, **wide), limit).status == "ok"
    assert _judge(measurement(time_s=0.9e-3, **wide), limit).status == "above_roof"


def test_the_ceilings_best_sample_is_believed(measurement: Rows, ceiling: Limits) -> None:
    limit = ceiling("dram.read", 50e9, "bytes/s", samples=[50e9, 105e9])
    row = _judge(measurement(time_s=0.5e-3, cost=READS), limit)
    assert row.status == "ok"
    assert row.fraction_of_roof == pytest.approx(100 / 105)


@pytest.mark.parametrize(
    ("row", "limit", "llc", "cause"),
    [
        ({}, {}, 40e6, "fits the last-level cache"),
        ({}, {"state": MachineState(throttled=True)}, 1e6, "throttled"),
        ({"state": MachineState(clock_hz=4e9)}, {"state": MachineState(clock_hz=2e9)}, 1e6, "clock was 2.00 times"),
        ({}, {}, 1e6, "counts bytes"),
        ({"time_s": 0.5e-6}, {}, 1e6, "timer"),
        ({"ci95_low_s": 0.4e-3, "ci95_high_s": 3e-3}, {}, 1e6, "disturbed"),
    ],
)
def test_the_likely_cause_is_named(
    measurement: Rows, ceiling: Limits, row: dict, limit: dict, llc: float, cause: str
) -> None:
    made = measurement(**({"time_s": 0.5e-3, "cost": READS} | row))
    judged = _judge(made, ceiling("dram.read", 50e9, "bytes/s", **limit), llc=llc)
    assert judged.status == "above_roof"
    assert cause in judged.message


def test_an_arithmetic_roof_blames_the_count(measurement: Rows, ceiling: Limits) -> None:
    cost = Cost(flops={"vector.fp32": 1e9}, read_bytes={"dram": 0.0}, write_bytes={"dram": 0.0})
    row = _judge(measurement(time_s=1e-4, cost=cost), ceiling("vector.fp32", 1e12, "FLOP/s"))
    assert "check the operator's cost" in row.message


def test_failures_and_unknown_devices_pass_unchanged(measurement: Rows, ceiling: Limits) -> None:
    limit = ceiling("dram.read", 50e9, "bytes/s")
    failed = measurement(cost=READS, status="crashed", message="died", median_s=None)
    assert _judge(failed, limit) == failed
    elsewhere = measurement(cost=READS, device="cuda:0")
    assert _judge(elsewhere, limit) == elsewhere


def test_judging_again_with_better_ceilings_takes_the_refusal_back(measurement: Rows, ceiling: Limits) -> None:
    refused = _judge(measurement(time_s=0.5e-3, cost=READS), ceiling("dram.read", 50e9, "bytes/s"))
    again = _judge(refused, ceiling("dram.read", 120e9, "bytes/s"))
    assert (again.status, again.message) == ("ok", "")
