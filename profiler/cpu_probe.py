"""Read a CPU's state: clock, temperature, energy counters, and whether its clock or time was limited."""

from __future__ import annotations

from pathlib import Path

from .host_text import read_text

_MICRO = 1e-6


class CpuProbe:
    """The host's cores and packages; ``root`` replaces ``/`` in tests."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._counts = self._limit_counts()
        self._energy_uj: dict[Path, int] = {}
        self._energy_total_j = 0.0
        self.energy_note = self._find_counters()

    def clock_hz(self) -> float | None:
        """Return the mean clock of the cores as the kernel tells it; in a virtual machine it may be nominal."""
        import psutil

        frequency = psutil.cpu_freq()
        return frequency.current * 1e6 if frequency and frequency.current else None

    def temperature_c(self) -> float | None:
        """Return the hottest sensor of the CPU."""
        import psutil

        if not hasattr(psutil, "sensors_temperatures"):
            return None
        groups = psutil.sensors_temperatures()
        names = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "acpitz")
        return max((s.current for name in names for s in groups.get(name, ())), default=None)

    def power_w(self) -> float | None:
        """Return None: a CPU's power comes from its energy counters alone."""
        return None

    def throttle_reasons(self) -> list[str]:
        """Return what has limited the clock or the time since the last call: heat, or a control group's quota."""
        counts = self._limit_counts()
        grown = [name for name, count in counts.items() if count > self._counts.get(name, count)]
        self._counts = counts
        return grown

    def _limit_counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for path in (self._root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/*_throttle_count"):
            text = read_text(path)
            name = f"thermal limit of the {path.name.removesuffix('_throttle_count')}"
            counts[name] = counts.get(name, 0) + (int(text) if text.isdigit() else 0)
        for path in (self._root / "sys/fs/cgroup/cpu.stat", self._root / "sys/fs/cgroup/cpu/cpu.stat"):
            for line in read_text(path).splitlines():
                name, _, value = line.partition(" ")
                if name == "nr_throttled" and value.isdigit():
                    counts["CPU quota of the control group"] = int(value)
        return counts

    def _find_counters(self) -> str:
        folders = [p for p in (self._root / "sys/class/powercap").glob("*-rapl:*") if p.name.count(":") == 1]
        if not folders:
            return "no energy counter: the system has no RAPL (usual in a virtual machine)"
        self._energy_uj = {f: int(text) for f in sorted(folders) if (text := read_text(f / "energy_uj")).isdigit()}
        if not self._energy_uj:
            return "the RAPL energy counters are readable by root only"
        return "RAPL, packages: " + ", ".join(read_text(folder / "name") for folder in self._energy_uj)

    def energy_j(self) -> float | None:
        """Return joules of all packages since this probe was made; None without a counter."""
        if not self._energy_uj:
            return None
        for folder, before in self._energy_uj.items():
            text = read_text(folder / "energy_uj")
            if not text.isdigit():
                return None
            spent = int(text) - before
            if spent < 0:  # The counter has wrapped.
                spent += int(read_text(folder / "max_energy_range_uj") or 0)
            self._energy_total_j += spent * _MICRO
            self._energy_uj[folder] = int(text)
        return self._energy_total_j
