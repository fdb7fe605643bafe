"""Ceiling rows, from the names to the values."""

import math
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from roofcast.kernels.contract import UnsupportedError
from roofcast.profiler.ceilings import (
    UnknownCeilingError,
    catalogue,
    ceiling_names,
    gpu,
    measure_ceilings,
    torch_matmul,
)
from roofcast.profiler.ceilings.measure import better_of
from roofcast.profiler.ceilings.setting import Setting
from roofcast.profiler.devices import DeviceError, Timing
from roofcast.profiler.machine import inspect_machine
from roofcast.profiler.schema import RECORD, CeilingRow


def test_names() -> None:
    quick = ceiling_names("cpu")
    for name in ("dram.read", "dram.copy", "dram.triad", "llc.read", "vector.fp32", "matrix.bf16", "exp.fp32"):
        assert name in quick
    full = ceiling_names("cpu", full=True)
    assert len(full) == len(set(full))
    assert {"dram.write", "dram.latency", "vector.fp64", "matrix.int8"} <= set(full)
    assert "matrix.fp8" in ceiling_names("cuda:0", full=True)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("dram.read", "bytes/s"),
        ("one_thread.l1.triad", "bytes/s"),
        ("llc.latency", "s"),
        ("vector.fp32", "FLOP/s"),
        ("matrix.int8", "op/s"),
        ("exp.fp32", "op/s"),
        ("one_thread.compare.fp32", "op/s"),
    ],
)
def test_units(name: str, unit: str) -> None:
    assert catalogue.unit(name) == unit


def test_unknown_names_and_devices_are_refused_with_near_ones() -> None:
    with pytest.raises(UnknownCeilingError, match=r"dram\.reed.*dram\.read"):
        next(measure_ceilings("cpu", names=["dram.reed"]))
    with pytest.raises(DeviceError):
        next(measure_ceilings("tpu", names=["dram.read"]))


def test_rows_on_this_machine() -> None:
    told: list[str] = []
    names = ["vector.fp32", "exp.fp32", "one_thread.compare.fp32", "l1.latency"]
    names = [name for name in names if name in ceiling_names("cpu", full=True) or name in ceiling_names("cpu")]
    rows = list(measure_ceilings("cpu", names=names, budget_s=0.2, progress=told.append))
    assert told == names == [row.name for row in rows]
    for row in rows:
        assert row.status in ("ok", "unsupported"), row.message
        assert RECORD.validate_json(row.model_dump_json()) == row
        if row.status == "ok":
            assert row.value is not None
            assert row.low is not None
            assert row.high is not None
            assert 0 < row.low <= row.value <= row.high
            assert row.samples
            assert row.method
    assert "GHz" in rows[0].method


def visit(value: float | None, **changes: Any) -> CeilingRow:
    fields = {"key": "k", "name": "dram.read", "device": "cpu", "device_name": "", "unit": "bytes/s", "started_at": ""}
    fields |= {"status": "ok", "value": value, "low": value, "high": value, "samples": [value], "method": "m"}
    return CeilingRow.model_validate(fields | changes)


def test_the_better_of_two_visits() -> None:
    both = better_of(visit(30e9, high=70e9), visit(60e9))
    assert (both.value, both.low, both.high, both.samples) == (60e9, 60e9, 70e9, [30e9, 60e9])
    assert "30 Gbytes/s and 60 Gbytes/s" in both.method
    failed = visit(None, status="crashed", low=None, high=None, samples=[], message="no luck")
    assert better_of(failed, visit(60e9)).value == 60e9
    assert better_of(visit(60e9), failed).value == 60e9
    assert better_of(failed, failed).message == "no luck"


def test_main_memory_is_visited_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([30e9, 1e9, 60e9])
    monkeypatch.setattr(
        "roofcast.profiler.ceilings.measure._measure_one",
        lambda name, setting, budget_s: visit(next(values), name=name),
    )
    told: list[str] = []
    rows = list(measure_ceilings("cpu", names=["dram.read", "exp.fp32"], progress=told.append))
    assert [(row.name, row.value) for row in rows] == [("exp.fp32", 1e9), ("dram.read", 60e9)]
    assert told == ["dram.read", "exp.fp32", "dram.read"]


def test_a_kernel_that_raises_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, setting: Setting) -> Any:
        raise ZeroDivisionError("no such luck")

    monkeypatch.setattr("roofcast.profiler.ceilings.measure.candidates", broken)
    (row,) = measure_ceilings("cpu", names=["vector.fp32"])
    assert (row.status, row.value) == ("crashed", None)
    assert "no such luck" in row.message


def test_without_torch_matrix_rates_are_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnsupportedError, match="torch is not installed"):
        torch_matmul.matmul_candidates("fp32", _FakeGpu(), 1)  # type: ignore[arg-type]


def test_a_level_without_a_knee_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Setting, "sweep", lambda self: [(1 << shift, 1e9) for shift in range(13, 28)])
    (row,) = measure_ceilings("cpu", names=["llc.read"])
    assert row.status == "unsupported"
    assert "no knee of llc" in row.message


class _FakeGpu:
    """What `matmul_candidates` and the bandwidth kernels ask of a device; its work runs on the CPU."""

    name, title, cache_bytes = "cpu", "fake", 1 << 20

    def sampler(self, runs: Any) -> Any:
        return lambda: Timing(1e-3 * len(runs) if all(run() is not Ellipsis for run in runs) else math.nan)

    def synchronise(self) -> None:
        pass


def test_matmul_sizes_follow_the_time_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    fits = torch_matmul._affordable(torch, "fp32", _FakeGpu(), (512, 1024, 2048, 4096))  # type: ignore[arg-type]
    assert fits == [512, 1024]
    monkeypatch.setattr(torch_matmul, "_LONGEST_CALL_S", 1e-9)
    assert torch_matmul._affordable(torch, "fp32", _FakeGpu(), (512,)) == [256]  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_matmul_is_the_product(precision: str) -> None:
    torch = pytest.importorskip("torch")
    run = torch_matmul._product(torch, precision, "cpu", 64)
    first: Any = run()
    assert first.shape == (64, 64)
    assert float(first.float().abs().max()) > 0


def test_fp8_is_refused_on_cpus() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(UnsupportedError, match="fp8"):
        torch_matmul._product(torch, "fp8", "cpu", 16)


@pytest.mark.parametrize(("access", "arrays"), [("read", 1), ("write", 1), ("copy", 2), ("triad", 3)])
def test_gpu_bandwidth_kernels_count_their_bytes(access: str, arrays: int) -> None:
    """The kernels run on the CPU here; their speed on a GPU is not what this can tell."""
    torch = pytest.importorskip("torch")
    size = 1 << 16
    candidates = gpu._candidates(torch, access, "cpu", size)
    for candidate in candidates:
        candidate.run()
    assert candidates[0].work == arrays * size
    if access == "triad":
        assert float(torch.as_tensor(candidates[0].run())[0]) == 4.0


def test_quick_set_names_are_rows_of_the_schema() -> None:
    machine = inspect_machine()
    for name in ceiling_names("cpu", full=True, machine=machine):
        row = CeilingRow(
            key=name,
            name=name,
            device="cpu",
            device_name="",
            status="unsupported",
            unit=catalogue.unit(name),
            started_at="",
        )
        assert row.unit == catalogue.unit(name)


def test_gpu_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnsupportedError, match="torch is not installed"):
        gpu.gpu_bandwidth_candidates("read", SimpleNamespace(name="cuda:0", cache_bytes=1))  # type: ignore[arg-type]
