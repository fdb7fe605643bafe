"""Turn measured ceilings into a profile that a user can keep, edit and send to others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

_UNITS = {"bytes/s": ("B/s", 1e9, "G"), "FLOP/s": ("FLOP/s", 1e9, "G"), "op/s": ("OP/s", 1e9, "G")}
# A confidence interval wider than this is that of a machine that was not quiet.
_UNSTEADY = 1.25
_INTEGER_RATES = ("int8", "int4")


class Measured(Protocol):
    """What is read of a measured ceiling (`profiler.schema.CeilingRow`)."""

    @property
    def name(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def value(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def unit(self) -> str: ...
    @property
    def method(self) -> str: ...


def slug(text: str) -> str:
    """Return a text as a profile's name: lower-case words joined by ``-``."""
    return "-".join(re.findall(r"[a-z0-9+]+", text.lower()))[:60].strip("-") or "device"


def profile_from_measurements(
    rows: Iterable[Measured],
    *,
    name: str,
    title: str,
    kind: str,
    date: str,
    vendor: str = "unknown",
    architecture: str = "unknown",
    compile_target: str | None = None,
    cores: int | None = None,
    sms: int | None = None,
    memory_bytes: int | None = None,
    llc_bytes: int | None = None,
    device_name: str | None = None,
) -> str:
    """Return the YAML text of a profile whose ceilings were measured.

    Bandwidth is the best of the measured accesses of a level; rates and exponentials are taken over; the 95 %
    confidence interval is the range. Failed rows and ceilings that a profile has no place for are left out.

    Parameters
    ----------
    rows
        The measured ceilings of one device.
    name, title, kind, vendor, architecture, compile_target
        The profile's identity; ``kind`` is ``cpu`` or ``gpu``.
    date
        Day of the measurement, such as ``2026-12-01``.
    cores, sms, memory_bytes, llc_bytes
        What is known of the device.
    device_name
        The name its driver reports, by which the profile is recognised later.
    """
    good = [row for row in rows if row.status == "ok" and row.value is not None and row.unit in _UNITS]
    compute: dict[str, Any] = {}
    if cores:
        compute["cores"] = str(cores)
    if sms:
        compute["sms"] = str(sms)
    for row in good:
        unit, _, precision = row.name.partition(".")
        if unit in ("vector", "matrix", "exp", "compare") and row.unit == _rate_unit(unit, precision):
            compute.setdefault(unit, {})[precision] = _figure(row)
    memory: dict[str, Any] = {}
    for level, field in (("dram", "dram"), ("l2", "l2"), ("llc", "l3" if kind == "cpu" else "l2"), ("l3", "l3")):
        best = max((r for r in good if r.name.startswith(f"{level}.")), key=lambda r: r.value or 0.0, default=None)
        if best is not None:
            memory.setdefault(field, {})["bandwidth"] = _figure(best, f"best access: {best.name}")
    if memory_bytes:
        memory.setdefault("dram", {})["capacity"] = f"{memory_bytes / 2**30:.4g} GiB"
    if llc_bytes:
        memory.setdefault("l3" if kind == "cpu" else "l2", {})["capacity"] = f"{llc_bytes / 2**20:.4g} MiB"
    head: dict[str, Any] = {
        "name": name,
        "title": title,
        "kind": kind,
        "vendor": vendor,
        "architecture": architecture,
        **({"compile_target": compile_target} if compile_target else {}),
        "status": "shipping",
        "note": "Measured by 'roofcast hw probe': what one machine reached, not what the maker specifies.",
    }
    if device_name:
        match: dict[str, Any] = {"names": [re.escape(" ".join(device_name.split())).replace("\\ ", " ")]}
        if kind == "gpu" and sms:
            match["sms"] = [sms]
        head["match"] = match
    body = {
        "defaults": {"source": "measured", "confidence": "medium"},
        "compute": compute,
        "memory": memory,
        "sources": {"measured": {"title": f"Measured by roofcast hw probe: {title}", "date": date}},
    }
    return "# What this device reached, measured. Peaks are dense and of one device.\n" + _dump({**head, **body})


def _rate_unit(unit: str, precision: str) -> str:
    return "op/s" if unit in ("exp", "compare") or precision in _INTEGER_RATES else "FLOP/s"


def _figure(row: Measured, note: str = "") -> dict[str, str]:
    text, size, prefix = _UNITS[row.unit]
    value = float(row.value or 0.0)
    low, high = (value if end is None else float(end) for end in (row.low, row.high))
    figure = {"value": f"{value / size:.6g} {prefix}{text}"}
    # Rounding must not push the value out of its own range.
    shown = [float(f"{x / size:.6g}") for x in (low, value, high)]
    if shown[0] < shown[2]:
        if shown[2] > _UNSTEADY * shown[0]:
            figure["confidence"] = "low"
        figure["range"] = f"{min(shown):.6g}..{max(shown):.6g} {prefix}{text}"
    words = "; ".join(word for word in (note, row.method) if word)
    return {**figure, **({"note": words} if words else {})}


def _dump(data: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)


def write_profile(text: str, directory: Path, name: str, *, replace: bool = False) -> Path:
    """Write a profile into a directory (made if need be) and check it by reading it back.

    Raises
    ------
    FileExistsError
        If there is one of that name and ``replace`` is false.
    ProfileError
        If what was measured makes no valid profile; the file is kept for inspection.
    """
    from .catalogue import load_file

    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.yaml"
    if path.exists() and not replace:
        raise FileExistsError(17, "exists already; give --replace to overwrite it or --name for another", str(path))
    path.write_text(text, encoding="utf-8")
    load_file(path)
    return path
