"""Projections: intervals in order, wide where little is known, and honest about where they come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.hwprofiles import UnknownProfileError
from roofcast.kernels.contract import Cost
from roofcast.profiler.schema import CeilingRow, Measurement
from roofcast.roofline.basis import basis_of
from roofcast.roofline.ceilings import Ceiling, Ceilings, from_rows
from roofcast.roofline.projection import project, specification_only
from roofcast.roofline.tables import kernel_class
from roofcast.roofline.targets import Target, load_target

Rows = Callable[..., Measurement]
Limits = Callable[..., CeilingRow]
ACCESSES = ("read", "write", "copy", "triad")
TARGETS = ("b200-hgx", "gb300-nvl72", "vera-rubin-nvl72")
DECODE = Cost(flops={"matrix.bf16": 0.54e9}, read_bytes={"dram": 134e6}, write_bytes={"dram": 0.1e6}, exponentials=1e6)


def _gpu(name: str = "h200-sxm") -> Ceilings:
    """The attained ceilings of a profile, as if they had been measured on ``cuda:0``."""
    target = load_target(name)
    return dataclasses.replace(target.attained["mid"], device="cuda:0", title=target.title)


def _on_gpu(rows: Rows, time_s: float, cost: Cost = DECODE, **more: object) -> Measurement:
    return rows(time_s=time_s, cost=cost, device="cuda:0", device_name="a GPU", **more)


def _cpu(limits: Limits) -> Ceilings:
    values = {"dram.read": 50e9, "vector.fp32": 540e9, "exp.fp32": 9e9, "compare.fp32": 60e9}
    units = {"dram.read": "bytes/s", "vector.fp32": "FLOP/s"}
    return from_rows([limits(name, value, units.get(name, "op/s")) for name, value in values.items()])


@settings(deadline=None, max_examples=60)
@given(
    reads=st.floats(0, 1e11),
    writes=st.floats(0, 1e10),
    flops=st.floats(0, 1e15),
    exps=st.floats(0, 1e12),
    name=st.sampled_from(TARGETS),
    kind=st.sampled_from(["gemm.bf16", "attention.decode", "streaming", "other"]),
    warm=st.booleans(),
)
def test_an_interval_is_ordered_and_above_the_hardware(
    reads: float, writes: float, flops: float, exps: float, name: str, kind: str, warm: bool
) -> None:
    cost = Cost(
        flops={"matrix.bf16": flops}, read_bytes={"dram": reads}, write_bytes={"dram": writes}, exponentials=exps
    )
    state = "warm" if warm else "cold"
    found = specification_only(cost, name, operator_class=kind, cache_state=state)
    assert 0 < found.time_low_s <= found.time_mid_s <= found.time_high_s
    assert found.basis == "specification_only"
    if state == "cold":
        specified = load_target(name).specified
        assert found.time_low_s * (1 + 1e-9) >= (reads + writes) / specified["dram.read"].high


def test_work_too_small_to_count_is_bound_by_overhead() -> None:
    cost = Cost(read_bytes={"dram": 0.0}, write_bytes={"dram": 0.0}, exponentials=5e-324)
    found = specification_only(cost, "b200-hgx", operator_class="gemm.bf16")
    assert found.bound_by == "overhead"
    assert found.time_mid_s > 0


def test_more_work_never_takes_less_time() -> None:
    for kind in ("gemm.bf16", "moe.experts", "selection"):
        times = [
            specification_only(
                Cost(read_bytes={"dram": 10.0**e}, write_bytes={"dram": 0.0}), "b200-hgx", operator_class=kind
            ).time_mid_s
            for e in range(4, 12)
        ]
        assert times == sorted(times)


def test_specified_ranges_reach_the_band() -> None:
    cost = Cost(read_bytes={"dram": 1e10}, write_bytes={"dram": 0.0})
    rubin = load_target("vera-rubin-nvl72")
    dram = rubin.specified["dram.read"]
    assert dram.low < dram.high
    narrow = dataclasses.replace(
        rubin,
        attained={
            case: ceilings.replaced({f"dram.{a}": _agreed(ceilings[f"dram.{a}"], dram, case) for a in ACCESSES})
            for case, ceilings in rubin.attained.items()
        },
    )
    wide = specification_only(cost, rubin, operator="sampling.logprob")
    slim = specification_only(cost, narrow, operator="sampling.logprob")
    assert wide.time_high_s / wide.time_low_s > slim.time_high_s / slim.time_low_s


def _agreed(attained: Ceiling, specified: Ceiling, case: str) -> Ceiling:
    """The ceiling as if all its sources gave the middle value."""
    end = {"low": specified.low, "mid": specified.value, "high": specified.high}[case]
    value = attained.value * specified.value / end
    return dataclasses.replace(attained, value=value, low=value, high=value, limit=0.0)


def test_nothing_measured_on_a_new_chip_widens_the_high_end_only() -> None:
    cost = Cost(read_bytes={"dram": 1e9}, write_bytes={"dram": 0.0})
    rubin = load_target("vera-rubin-nvl72")
    known = dataclasses.replace(rubin, architecture="blackwell", status="shipping")
    new, old = (specification_only(cost, t, operator="attention.decode") for t in (rubin, known))
    assert (new.time_low_s, new.time_mid_s) == (old.time_low_s, old.time_mid_s)
    assert new.time_high_s > old.time_high_s


def test_from_a_cpu_the_band_is_never_narrower_than_without_it(measurement: Rows, ceiling: Limits) -> None:
    cost = Cost(flops={"matrix.fp32": 5e8}, read_bytes={"dram": 268e6}, write_bytes={"dram": 1e5}, exponentials=1e6)
    for time_s in (5.4e-3, 20e-3, 500e-3):
        (found,) = project([measurement(time_s=time_s, cost=cost)], _cpu(ceiling), ["b200-hgx"])
        bare = specification_only(cost, "b200-hgx", operator="attention.decode")
        assert found.basis == "cpu_to_gpu"
        assert found.time_low_s <= bare.time_low_s * (1 + 1e-12)
        assert found.time_high_s >= bare.time_high_s * (1 - 1e-12)
        assert found.time_high_s / found.time_low_s > 4


def test_a_better_cpu_kernel_moves_the_middle_down_a_little(measurement: Rows, ceiling: Limits) -> None:
    cost = Cost(read_bytes={"dram": 268e6}, write_bytes={"dram": 0.0})
    mids = [
        project([measurement(time_s=t, cost=cost)], _cpu(ceiling), ["b200-hgx"])[0].time_mid_s for t in (6e-3, 60e-3)
    ]
    assert mids[0] < mids[1] < 10 * mids[0]


def test_nothing_is_carried_from_a_cpu_bound_elsewhere(measurement: Rows, ceiling: Limits) -> None:
    cost = Cost(read_bytes={"dram": 39e6}, write_bytes={"dram": 0.0}, exponentials=9.7e6)
    found, other = (
        project([measurement("sampling.logprob", time_s=t, cost=cost)], _cpu(ceiling), ["b200-hgx"])[0]
        for t in (1.2e-3, 12e-3)
    )
    assert found.time_mid_s == other.time_mid_s
    assert "nothing is carried" in found.terms[0]["efficiency_from"]


def test_only_the_fastest_implementation_is_projected(measurement: Rows, ceiling: Limits) -> None:
    rows = [measurement(time_s=6e-3), measurement(implementation="torch", time_s=12e-3)]
    assert [p.implementation for p in project(rows, _cpu(ceiling), ["b200-hgx"])] == ["numba"]
    assert len(project(rows, _cpu(ceiling), ["b200-hgx"], fastest=False)) == 2


def test_failed_rows_and_rows_without_a_roof_are_left_out(measurement: Rows, ceiling: Limits) -> None:
    assert project([measurement(status="incorrect")], _cpu(ceiling), ["b200-hgx"]) == []
    assert project([measurement()], from_rows([]), ["b200-hgx"]) == []


def test_efficiency_is_carried_between_like_gpus(measurement: Rows) -> None:
    source = _gpu("h200-sxm")
    cost = Cost(read_bytes={"dram": 4e9}, write_bytes={"dram": 0.0})
    roof = 4e9 / source["dram.read"].value
    floor = kernel_class("attention.decode").floor(1)
    (found,) = project([_on_gpu(measurement, floor + roof / 0.8, cost)], source, ["b200-hgx"])
    assert found.basis == "next_generation"
    assert found.efficiency == pytest.approx(0.8)
    assert found.overhead_s == pytest.approx(floor)
    roof_there = 4e9 / load_target("b200-hgx").attained["mid"]["dram.read"].value
    assert found.time_mid_s == pytest.approx(floor + 1.066 * roof_there / 0.8)
    assert found.time_low_s < 0.7 * found.time_mid_s
    assert found.time_high_s > 1.48 * found.time_mid_s


def test_overhead_does_not_scale_with_the_hardware(measurement: Rows) -> None:
    cost = Cost(read_bytes={"dram": 1e4}, write_bytes={"dram": 0.0})
    (found,) = project([_on_gpu(measurement, 8e-6, cost)], _gpu("h200-sxm"), ["vera-rubin-nvl72"])
    assert found.bound_by == "overhead"
    assert found.time_mid_s == pytest.approx(8e-6, rel=0.12)


def test_efficiency_above_the_cap_is_not_carried(measurement: Rows) -> None:
    source = _gpu("h200-sxm")
    cost = Cost(read_bytes={"dram": 4e9}, write_bytes={"dram": 0.0})
    (found,) = project([_on_gpu(measurement, 0.7 * 4e9 / source["dram.read"].value, cost)], source, ["b200-hgx"])
    assert found.efficiency == 1.0


def test_a_resource_that_did_not_bind_here_takes_the_class_and_widens(measurement: Rows) -> None:
    cost = Cost(flops={"matrix.bf16": 2e12}, read_bytes={"dram": 1e9}, write_bytes={"dram": 0.0})
    source = _gpu("h200-sxm")
    slow = dataclasses.replace(source["dram.read"], value=4e11, low=4e11, high=4e11, limit=0.0)
    starved = source.replaced({f"dram.{a}": dataclasses.replace(slow, name=f"dram.{a}") for a in ACCESSES})
    (found,) = project([_on_gpu(measurement, 4e-3, cost, operator="gemm")], starved, ["b200-hgx"])
    assert found.bound_by == "matrix.bf16"
    assert any(f["name"].startswith("kernels of class") for f in found.factors)


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        ("h200-sxm", "b200-hgx", "next_generation"),
        ("h200-sxm", "vera-rubin-nvl72", "two_generations"),
        ("h100-sxm", "h200-sxm", "same_architecture"),
        ("b200-hgx", "gb300-nvl72", "same_architecture"),
        ("b200-hgx", "h200-sxm", "downward"),
        ("h200-sxm", "l40s", "downward"),
        ("h200-sxm", "mi355x", "specification_only"),
    ],
)
def test_basis_between_gpus(source: str, target: str, name: str) -> None:
    assert basis_of(_gpu(source), load_target(target)) == name


def test_a_smaller_device_of_the_same_generation_is_downward() -> None:
    source = load_target("h200-sxm")
    small = dataclasses.replace(source.attained["mid"]["dram.read"], value=1e12, low=1e12, high=1e12, limit=0.0)
    target: Target = dataclasses.replace(
        source, attained={c: s.replaced({"dram.read": small}) for c, s in source.attained.items()}
    )
    assert basis_of(_gpu("h200-sxm"), target, ["dram.read"]) == "downward"
    assert basis_of(_gpu("h200-sxm"), target) == "same_architecture"


def test_a_system_stands_for_its_gpu() -> None:
    system, device = load_target("vera-rubin-nvl72"), load_target("rubin-r200")
    assert system.name == "vera-rubin-nvl72"
    assert system.device == "rubin-r200"
    assert system.kind == device.kind == "gpu"


def test_an_unknown_target_names_near_ones() -> None:
    cost = Cost(read_bytes={"dram": 1.0}, write_bytes={"dram": 0.0})
    with pytest.raises(UnknownProfileError, match="b200"):
        specification_only(cost, "b2000")


def test_every_term_names_its_source() -> None:
    found = specification_only(DECODE, "vera-rubin-nvl72", operator="attention.decode")
    assert {term["resource"] for term in found.terms} >= {"matrix.bf16", "exp.fp32"}
    for term in found.terms:
        assert term["source"]
        assert term["efficiency_from"]
        assert term["specified_low"] <= term["specified"] <= term["specified_high"]
    assert found.sources
    assert all(f["source"] for f in found.factors)


def test_what_a_profile_lacks_is_derived_and_says_so() -> None:
    target = load_target("vera-rubin-nvl72")
    assert target.specified["compare.fp32"].origin == "derived"
    assert "vector.fp32" in target.specified["compare.fp32"].source


def test_a_collective_is_bound_by_the_targets_link() -> None:
    from roofcast.kernels import get_operator, make_workload

    workload = make_workload("comm.all_reduce", {"ranks": 8, "elements": 1 << 26})
    cost = get_operator("comm.all_reduce").cost(workload)
    found = specification_only(cost, "b200-hgx", operator="comm.all_reduce")
    assert found.bound_by == "link.scaleup"
    link = load_target("b200-hgx").specified["link.scaleup"]
    assert found.time_mid_s > cost.link_bytes / link.value
