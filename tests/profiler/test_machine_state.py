"""Machine state with simulated sensors: throttling, energy counters, NVML."""

import dataclasses
from pathlib import Path

import pytest
from roofcast.profiler.cpu_probe import CpuProbe
from roofcast.profiler.machine_state import StateWatch, read_energy
from roofcast.profiler.measuring import measure
from roofcast.profiler.nvml_probe import NvmlProbe


class FakeProbe:
    """A device that throttles in given looks and whose energy counter follows a list."""

    energy_note = "simulated counter"

    def __init__(self, throttled_looks=(), energy=()):
        self._looks = 0
        self._throttled_looks = throttled_looks
        self._energy = list(energy)

    def clock_hz(self):
        return 2e9

    def temperature_c(self):
        return 71.0

    def power_w(self):
        return None

    def throttle_reasons(self):
        self._looks += 1
        return ["hot"] if self._looks - 1 in self._throttled_looks else []

    def energy_j(self):
        return self._energy.pop(0) if self._energy else None


def _measure(toy, settings, probe):
    (row,) = measure(toy("double"), settings, make_watch=lambda device: StateWatch(device, probe))
    return row


def test_throttled_round_is_taken_again(toy, fast):
    row = _measure(toy, fast, FakeProbe(throttled_looks={2}))
    assert row.status == "ok"
    assert row.method["retried_rounds"] == 1
    assert row.method["throttled_rounds"] == []
    assert row.state.throttled is False
    assert row.state.throttle_reasons == ["hot"]
    assert (row.state.clock_hz, row.state.temperature_c) == (2e9, 71.0)


def test_lasting_throttling_is_flagged_and_never_empty(toy, fast):
    row = _measure(toy, dataclasses.replace(fast, retries=2), FakeProbe(throttled_looks=range(1, 1000)))
    assert row.status == "ok"
    assert row.samples_s
    assert row.method["retried_rounds"] == 2
    assert row.method["throttled_rounds"] == list(range(len(row.method["round_sizes"])))
    assert row.state.throttled is True


def test_energy_per_call_with_and_without_idle():
    # Readings: is it readable, idle before and after, case before and after.
    probe = FakeProbe(energy=[0.0, 100.0, 100.5, 200.0, 230.0])
    energy = read_energy(probe, lambda seconds: 10, seconds=0.5, idle_s=0.05)
    assert energy.total_j == pytest.approx(3.0)
    assert energy.above_idle_j < energy.total_j
    assert "10 calls" in energy.note


def test_energy_says_why_it_is_missing():
    assert read_energy(FakeProbe(), lambda s: 1, 1.0).note == "simulated counter"
    assert read_energy(FakeProbe(), lambda s: 1, 0.0).note == "energy was not asked for"
    stuck = FakeProbe(energy=[5.0] * 5)
    assert "did not move" in read_energy(stuck, lambda s: 1, 0.01, idle_s=0.01).note


def _write(root: Path, name: str, value: object) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


def test_cpu_probe_sees_heat_and_quota(tmp_path):
    heat = "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count"
    _write(tmp_path, heat, 3)
    _write(tmp_path, "sys/fs/cgroup/cpu.stat", "usage_usec 5\nnr_throttled 7")
    probe = CpuProbe(tmp_path)
    assert probe.throttle_reasons() == []
    _write(tmp_path, heat, 4)
    assert probe.throttle_reasons() == ["thermal limit of the core"]
    _write(tmp_path, "sys/fs/cgroup/cpu.stat", "usage_usec 5\nnr_throttled 8")
    assert probe.throttle_reasons() == ["CPU quota of the control group"]
    assert probe.throttle_reasons() == []


def test_cpu_probe_adds_packages_and_survives_a_wrap(tmp_path):
    for package in (0, 1):
        folder = f"sys/class/powercap/intel-rapl:{package}"
        _write(tmp_path, f"{folder}/energy_uj", 9_000_000)
        _write(tmp_path, f"{folder}/max_energy_range_uj", 10_000_000)
        _write(tmp_path, f"{folder}/name", f"package-{package}")
    _write(tmp_path, "sys/class/powercap/intel-rapl:0:0/energy_uj", 5_000_000)
    probe = CpuProbe(tmp_path)
    assert probe.energy_note == "RAPL, packages: package-0, package-1"
    _write(tmp_path, "sys/class/powercap/intel-rapl:0/energy_uj", 9_500_000)
    _write(tmp_path, "sys/class/powercap/intel-rapl:1/energy_uj", 1_000_000)
    assert probe.energy_j() == pytest.approx(0.5 + 2.0)
    assert CpuProbe(tmp_path / "nothing").energy_j() is None


class FakeNvml:
    """The few calls of pynvml that the probe makes, of a GPU under a power cap."""

    def nvmlInit(self):  # noqa: N802
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid != "GPU-1":
            raise RuntimeError("Not Found")
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle, kind):  # noqa: N802
        return 1755

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):  # noqa: N802
        return 0x1 | 0x4 | 0x40

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):  # noqa: N802
        return 1500

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        raise RuntimeError("Not Supported")


def test_nvml_probe():
    probe = NvmlProbe("GPU-1", FakeNvml())
    assert probe.clock_hz() == 1.755e9
    assert probe.throttle_reasons() == ["software power cap", "hardware thermal slowdown"]
    assert probe.energy_j() == 1.5
    assert probe.power_w() is None
    absent = NvmlProbe("GPU-2", FakeNvml())
    assert absent.clock_hz() is None
    assert absent.throttle_reasons() == []
    assert "GPU-2 (Not Found)" in absent.energy_note
