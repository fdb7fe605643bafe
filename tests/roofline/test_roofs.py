"""Roofs: units able to do the work, the bandwidth of a mix, cache states."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofcast.kernels.contract import Cost
from roofcast.roofline.ceilings import Ceiling, Ceilings
from roofcast.roofline.roofs import able_rates, applicable_bandwidth, bound_by, fraction_of_roof, roofs

MIB = 2**20


def _device(kind: str = "cpu", capacities: dict[str, float] | None = None, **values: float) -> Ceilings:
    named = {}
    for key, value in values.items():
        name = key.replace("__", ".")
        unit = "bytes/s" if name.split(".")[0] in ("dram", "llc", "l2", "link") else "FLOP/s"
        named[name] = Ceiling(name, value, value, value, unit, "measured", "here")
    return Ceilings("cpu", "a device", kind, named=named, capacities=capacities or {})


def _moves(reads: float, writes: float = 0.0, **more: object) -> Cost:
    return Cost(read_bytes={"dram": reads}, write_bytes={"dram": writes}, **more)  # type: ignore[arg-type]


def test_matrix_work_runs_on_the_fastest_able_unit() -> None:
    device = _device(vector__fp32=540.0, matrix__fp32=220.0, matrix__bf16=930.0)
    cost = _moves(0, flops={"matrix.fp32": 540.0})
    assert roofs(cost, device) == {"vector.fp32": 1.0}
    assert roofs(_moves(0, flops={"matrix.bf16": 930.0}), device) == {"matrix.bf16": 1.0}


def test_a_narrower_precision_cannot_do_wider_work() -> None:
    assert "matrix.bf16" not in able_rates("matrix.fp32")
    assert "matrix.tf32" not in able_rates("matrix.fp32")
    assert roofs(_moves(0, flops={"vector.fp64": 1.0}), _device(vector__fp32=1.0)) == {}


def test_vector_work_never_runs_on_matrix_units() -> None:
    assert roofs(_moves(0, flops={"vector.fp32": 10.0}), _device(matrix__fp32=10.0)) == {}


def test_work_that_shares_a_ceiling_adds_up() -> None:
    cost = _moves(0, flops={"matrix.fp32": 1.0, "vector.fp32": 2.0})
    assert roofs(cost, _device(vector__fp32=1.0)) == {"vector.fp32": 3.0}


@pytest.mark.parametrize(
    ("reads", "writes", "name", "value"),
    [
        (1.0, 0.0, "dram.read", 50.0),
        (2.0, 1.0, "dram.triad", 46.0),
        (1.0, 1.0, "dram.copy", 44.0),
        (11.0, 1.0, "dram.read", 49.0),
        (7.0, 5.0, "dram.copy", 45.0),
        (1.0, 3.0, "dram.copy", 44.0),
    ],
)
def test_a_mix_lies_between_its_neighbours(reads: float, writes: float, name: str, value: float) -> None:
    device = _device(dram__read=50.0, dram__triad=46.0, dram__copy=44.0)
    found = applicable_bandwidth(device.accesses("dram"), reads, writes)
    assert found is not None
    assert (found.name, found.value) == (name, pytest.approx(value))


def test_reads_are_at_least_as_fast_as_a_copy_was_seen_to_be() -> None:
    disturbed = _device(dram__read=8.0, dram__triad=15.0, dram__copy=34.0)
    assert roofs(_moves(34.0), disturbed) == {"dram.read": 2.0}


@given(share=st.floats(0, 1), values=st.lists(st.floats(1e9, 1e13), min_size=4, max_size=4))
def test_the_bandwidth_of_a_mix_is_one_that_was_seen(share: float, values: list[float]) -> None:
    device = _device(dram__read=values[0], dram__write=values[1], dram__copy=values[2], dram__triad=values[3])
    found = applicable_bandwidth(device.accesses("dram"), 1 - share, share)
    assert found is not None
    assert min(values) * (1 - 1e-12) <= found.value <= max(values) * (1 + 1e-12)


def test_cold_reads_everything_from_memory() -> None:
    device = _device(dram__read=100.0, llc__read=1000.0, capacities={"llc": 1e6})
    assert roofs(_moves(1000.0), device, "cold") == {"dram.read": 10.0}


def test_warm_and_fitting_reads_the_last_level() -> None:
    device = _device(dram__read=100.0, llc__read=1000.0, capacities={"llc": 1e6})
    assert roofs(_moves(1000.0), device, "warm") == {"llc.read": 1.0}


def test_warm_and_larger_than_the_cache_pays_for_the_rest() -> None:
    device = _device(dram__read=100.0, llc__read=1000.0)
    found = roofs(_moves(1500.0), device, "warm", capacities={"llc": 1000.0})
    assert found == {"dram.read": 5.0, "llc.read": 1.5}


def test_warm_within_the_private_caches_has_no_memory_roof_unless_measured() -> None:
    caches = {"llc": 32.0 * MIB, "l2": 2.0 * MIB}
    device = _device(dram__read=100.0, llc__read=1000.0, capacities=caches)
    assert roofs(_moves(1.0 * MIB), device, "warm") == {}
    with_l2 = _device(dram__read=100.0, llc__read=1000.0, l2__read=4000.0, capacities=caches)
    assert list(roofs(_moves(1.0 * MIB), with_l2, "warm")) == ["l2.read"]


def test_a_gpus_last_level_is_its_l2() -> None:
    device = _device("gpu", {"l2": 1e6}, dram__read=100.0, l2__read=1000.0)
    assert roofs(_moves(1000.0), device, "warm") == {"l2.read": 1.0}


@given(
    reads=st.floats(1, 1e12),
    writes=st.floats(0, 1e12),
    capacity=st.floats(0, 1e12),
    flops=st.floats(0, 1e15),
)
def test_warm_is_never_above_cold(reads: float, writes: float, capacity: float, flops: float) -> None:
    device = _device(dram__read=1e11, llc__read=4e11, vector__fp32=1e12, capacities={"llc": capacity})
    cost = _moves(reads, writes, flops={"vector.fp32": flops})
    warm, cold = roofs(cost, device, "warm"), roofs(cost, device, "cold")
    assert max(warm.values()) <= max(cold.values()) * (1 + 1e-12)


def test_exponentials_and_comparisons_have_roofs() -> None:
    device = _device(exp__fp32=4.0, compare__fp32=8.0)
    found = roofs(_moves(0, exponentials=8.0, compares=8.0), device)
    assert found == {"exp.fp32": 2.0, "compare.fp32": 1.0}
    assert bound_by(found) == "exp.fp32"
    assert fraction_of_roof(found, 4.0) == 0.5


def test_links_of_either_name() -> None:
    cost = _moves(0, link_bytes=10.0)
    assert roofs(cost, _device("gpu", link__nvlink=5.0)) == {"link.nvlink": 2.0}
    assert roofs(cost, _device("gpu", link__scaleup=5.0, link__nvlink=5.0)) == {"link.scaleup": 2.0}


def test_nothing_bounds_without_ceilings() -> None:
    assert roofs(_moves(10.0), _device()) == {}
    assert bound_by({}) is None
    assert fraction_of_roof({}, 1.0) is None


def test_plain_values_of_a_row_are_a_cost_too() -> None:
    cost = _moves(100.0)
    assert roofs(cost.as_dict(), _device(dram__read=100.0)) == roofs(cost, _device(dram__read=100.0))
