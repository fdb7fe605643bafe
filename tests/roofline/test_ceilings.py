"""Ceilings from measured rows and from profiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from roofcast.hwprofiles import load_device
from roofcast.profiler.schema import CeilingRow
from roofcast.roofline.ceilings import Ceiling, from_profile, from_rows, machine_capacities


def test_failed_rows_and_other_devices_are_left_out(ceiling: Callable[..., CeilingRow]) -> None:
    rows = [
        ceiling("dram.read", 50e9, "bytes/s"),
        ceiling("llc.read", 200e9, "bytes/s", status="crashed", message="died"),
        ceiling("dram.read", 3e12, "bytes/s", device="cuda:0"),
    ]
    found = from_rows(rows)
    assert list(found.named) == ["dram.read"]
    assert found["dram.read"].origin == "measured"
    assert from_rows(rows, device="cuda:0").kind == "gpu"


def test_latest_row_of_a_name_wins(ceiling: Callable[..., CeilingRow]) -> None:
    found = from_rows([ceiling("dram.read", v, "bytes/s") for v in (40e9, 50e9)])
    assert found["dram.read"].value == 50e9


def test_limit_is_the_best_sample(ceiling: Callable[..., CeilingRow]) -> None:
    row = ceiling("dram.read", 50e9, "bytes/s", samples=[48e9, 50e9, 53e9])
    found = from_rows([row])["dram.read"]
    assert found.limit == 53e9
    assert found.value == 50e9
    assert found.high < found.limit


def test_a_disturbed_ceiling_is_its_best_sample(ceiling: Callable[..., CeilingRow]) -> None:
    row = ceiling("exp.fp32", 2e9, "op/s", samples=[1e9, 2e9, 3e9], low=1e9, high=2.5e9)
    found = from_rows([row])["exp.fp32"]
    assert (found.low, found.value, found.limit) == (1e9, 3e9, 3e9)
    assert "disturbed" in found.note


@pytest.mark.parametrize(("low", "value", "high"), [(0, 1, 1), (2, 1, 3), (1, 3, 2)])
def test_a_range_out_of_order_is_refused(low: float, value: float, high: float) -> None:
    with pytest.raises(ValueError, match=r"dram\.read"):
        Ceiling("dram.read", value, low, high, "bytes/s", "measured", "here")


def test_best_ignores_what_is_unknown(ceiling: Callable[..., CeilingRow]) -> None:
    found = from_rows([ceiling("vector.fp32", 1e12, "FLOP/s"), ceiling("matrix.fp32", 2e11, "FLOP/s")])
    best = found.best(["matrix.fp32", "vector.fp32", "vector.fp64"])
    assert best is not None
    assert best.name == "vector.fp32"
    assert found.best(["matrix.fp8"]) is None


def test_profile_keeps_range_and_source() -> None:
    found = from_profile(load_device("rubin-r200"))
    dram = found["dram.read"]
    assert dram.low < dram.high == pytest.approx(22e12)
    assert dram.origin == "specified"
    assert dram.source.startswith("rubin-r200: ")
    assert any(name.startswith("link.") for name in found.named)


def test_capacities_count_every_cache_within_reach() -> None:
    machine: dict[str, Any] = {
        "logical_cores": 8,
        "allowed_cores": 4,
        "memory_bytes": 100,
        "caches": [
            {"level": 3, "size_bytes": 32, "shared_by": 4},
            {"level": 1, "size_bytes": 1, "shared_by": 1},
            {"level": 2, "size_bytes": 2, "shared_by": 2},
        ],
    }
    assert machine_capacities(machine) == {"l1": 4.0, "l2": 8.0, "llc": 64.0, "dram": 100.0}
    assert machine_capacities({"gpus": [{"memory_bytes": 7}]}, "cuda:0") == {"dram": 7.0}
    assert machine_capacities({}, "cuda:1") == {}
