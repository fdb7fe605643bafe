"""The devices of this machine find their profiles, and a probed one is written with what is known of it."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from roofcast.hwprofiles import DeviceProfile, load_file
from roofcast.profiler import ceilings
from roofcast.profiler.cpu_topology import CoreKind
from roofcast.profiler.live_identity import architecture_of, identify_machine, observed_cpu, probe_device
from roofcast.profiler.machine import inspect_machine
from roofcast.profiler.schema import CeilingRow


def _row(name: str, value: float, unit: Any) -> CeilingRow:
    return CeilingRow(
        key=name, name=name, device="cpu", device_name="x", status="ok", value=value, unit=unit,
        low=0.99 * value, high=1.01 * value, started_at="2026-12-01T00:00:00Z",
    )  # fmt: skip


def test_a_probed_machine_knows_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_: object, **__: object) -> Iterator[CeilingRow]:
        yield _row("dram.read", 20e9, "bytes/s")
        yield _row("vector.fp32", 100e9, "FLOP/s")

    monkeypatch.setattr(ceilings, "measure_ceilings", measured)
    monkeypatch.setenv("ROOFCAST_HWPROFILES", str(tmp_path))
    path = probe_device("cpu", name="This Machine", directory=tmp_path)
    profile = load_file(path)
    assert isinstance(profile, DeviceProfile)
    assert profile.name == "this-machine"
    assert profile.ceilings()["dram.read"].value == 20e9
    machine = inspect_machine()
    assert profile.capacities()["dram"].value == pytest.approx(machine.usable_memory_bytes, rel=1e-3)
    found = identify_machine(machine, nvml=object())[0]
    assert found.device == "cpu"
    named = found.found.profile is not None and found.found.profile.name == "this-machine"
    assert named or "several profiles fit" in found.found.words[0]


def test_cores_are_those_that_affinity_and_quota_leave() -> None:
    base = dataclasses.replace(
        inspect_machine(), logical_cores=32, physical_cores=16, affinity_cores=8, quota_cores=None, core_kinds=()
    )
    assert observed_cpu(base).usable_cores == 4
    assert observed_cpu(dataclasses.replace(base, quota_cores=3.0)).usable_cores == 1.5
    hybrid = dataclasses.replace(base, core_kinds=(CoreKind("fast", 6), CoreKind("slow", 10)))
    assert observed_cpu(hybrid).performance_cores == 6
    assert observed_cpu(base).performance_cores is None


def test_architecture_of_a_compile_target() -> None:
    assert architecture_of("sm_90") == "hopper"
    assert architecture_of("gfx950") == "cdna4"
    assert architecture_of("sm_999") == "unknown"
