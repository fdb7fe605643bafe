"""The tables of the report: rows of text, ready to be shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..profiler.schema import STATUS_MEANING, CeilingRow
from ..profiler.store import Run
from .figure_style import duration, si
from .projected import Projection
from .speedup import speedups

# A hypervisor that takes more of the cores' time than this disturbs what is measured.
_STEAL = 0.02


@dataclass(frozen=True)
class Table:
    """Column names, rows of cells, and the columns that are aligned to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[str, ...] = ()


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> Table:
    return Table(
        tuple(columns), tuple(tuple("" if cell is None else str(cell) for cell in row) for row in rows), tuple(right)
    )


def _span(low: float | None, high: float | None, show: Any) -> str:
    return "" if low is None or high is None else f"{show(low)} to {show(high)}"


def _shape(workload: Any) -> str:
    return ", ".join(f"{k}={v}" for k, v in dict(workload).items())


def warnings(run: Run, projections: Sequence[Projection]) -> list[str]:
    """Return sentences on what a reader must know before trusting the page."""
    notes = list(run.warnings)
    if not run.manifest.complete:
        notes.append("The run did not end; what was measured until then is shown.")
    if run.manifest.commit.endswith("+dirty"):
        notes.append(f"The code had changes beside commit {run.manifest.commit.removesuffix('+dirty')}.")
    hypervisor = run.manifest.machine.get("hypervisor")
    if hypervisor:
        notes.append(f"The machine is virtual (hypervisor: {hypervisor}); neighbours may disturb the measurements.")
    rows = [*run.measurement_rows, *run.ceiling_rows]
    steal = max((row.state.steal_fraction or 0.0 for row in rows), default=0.0)
    if steal > _STEAL:
        notes.append(f"The hypervisor took up to {steal:.0%} of the CPU time while sampling.")
    throttled = [row.key for row in rows if row.state.throttled]
    if throttled:
        notes.append(f"The device limited its clock during {len(throttled)} of {len(rows)} rows.")
    refused = sum(row.status == "above_roof" for row in run.measurement_rows)
    if refused:
        notes.append(f"{refused} row(s) are faster than a measured roof allows and are not shown as results.")
    failed = sum(row.status not in ("ok", "unsupported", "above_roof") for row in run.measurement_rows)
    if failed:
        notes.append(f"{failed} case(s) failed.")
    if any(p.basis == "cpu_to_gpu" for p in projections):
        notes.append(
            "The projections start from a CPU. Its kernels say little about a GPU's, so the bands are wide: they span "
            "what real GPU kernels of the same class do. Measurements on a GPU narrow them."
        )
    return notes


def machine(run: Run) -> Table:
    """Return what the machine is."""
    m = run.manifest.machine
    sizes = ", ".join(f"L{c['level']} {_size(c['size_bytes'])}" for c in m.get("caches") or [])
    cores = f"{m.get('allowed_cores')} of {m.get('logical_cores')} logical"
    memory = m.get("memory_bytes")
    gpus = ", ".join(str(gpu.get("name")) for gpu in m.get("gpus") or []) or m.get("gpu_note") or "none"
    rows = [
        ("CPU", m.get("cpu_model")),
        ("Microarchitecture", m.get("microarchitecture")),
        ("Cores used", cores),
        ("Caches of a core", sizes),
        ("Vector registers", f"{m['simd_bits']} bit" if m.get("simd_bits") else None),
        ("Memory", f"{memory / 2**30:.3g} GiB" if memory else None),
        ("System", m.get("system")),
        ("Hypervisor", m.get("hypervisor")),
        ("GPUs", gpus),
    ]
    return _table(("", "value"), [row for row in rows if row[1]])


def _size(count: float) -> str:
    return f"{count / 2**10:.3g} KiB" if count < 2**20 else f"{count / 2**20:.3g} MiB"


def ceilings(run: Run) -> Table:
    """Return the measured ceilings, those that failed with their reason."""
    columns = ("ceiling", "device", "value", "95 % interval", "threads", "working set", "how")
    return _table(columns, [_ceiling(row) for row in run.ceiling_rows], ("value", "threads"))


def _ceiling(row: CeilingRow) -> tuple[object, ...]:
    show = duration if row.unit == "s" else lambda value: si(value, row.unit)
    if row.status != "ok" or row.value is None:
        return row.name, row.device, row.status, "", row.threads, "", row.message
    size = _size(row.working_set_bytes) if row.working_set_bytes else ""
    return row.name, row.device, show(row.value), _span(row.low, row.high, show), row.threads, size, row.method


def results(run: Run) -> Table:
    """Return the correct rows, with their speed-up over the baseline."""
    ratio = speedups(run.measurement_rows)
    columns = (
        *("operator", "workload", "implementation", "device", "time", "95 % interval"),
        *("of roof", "bound by", "vs baseline", "error / tolerance"),
    )
    rows = [
        (
            row.operator,
            _shape(row.workload),
            row.implementation,
            f"{row.device}, {row.cache_state}",
            duration(row.median_s),
            _span(row.ci95_low_s, row.ci95_high_s, duration),
            "" if row.fraction_of_roof is None else f"{row.fraction_of_roof:.1%}",
            row.bound_by,
            f"{ratio[row.key]:.3g}x" if row.key in ratio else "",
            "" if row.max_error is None else f"{row.max_error:.2g}",
        )
        for row in run.measurement_rows
        if row.status == "ok" and row.median_s is not None
    ]
    return _table(columns, rows, ("time", "of roof", "vs baseline", "error / tolerance"))


def failures(run: Run) -> Table:
    """Return the rows that are no results, with the reason."""
    rows = [
        (row.operator, row.implementation, row.device, row.status, row.message or STATUS_MEANING[row.status])
        for row in run.measurement_rows
        if row.status != "ok"
    ]
    return _table(("operator", "implementation", "device", "status", "reason"), rows)


def projections(items: Sequence[Projection]) -> Table:
    """Return the projections."""
    columns = (
        *("row", "operator", "workload", "from", "target", "low", "middle", "high"),
        *("basis", "bound by", "efficiency", "overhead"),
    )
    rows = [
        (
            p.id,
            p.operator,
            _shape(p.workload),
            p.implementation,
            p.target_title,
            duration(p.time_low_s),
            duration(p.time_mid_s),
            duration(p.time_high_s),
            p.basis,
            p.bound_by,
            f"{p.efficiency:.0%}",
            duration(p.overhead_s),
        )
        for p in items
    ]
    return _table(columns, rows, ("low", "middle", "high", "efficiency", "overhead"))


def loop(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the loop cost, each figure as middle (low to high)."""
    columns = ("row", "scenario", "system", "phase", "time", "GPU-hours", "kWh", "USD", "share", "bound by", "basis")

    def band(row: dict[str, Any], name: str, unit: str = "", show: Any = lambda v: f"{v:.3g}") -> str:
        low, mid, high = (row[f"{name}_{end}{unit}"] for end in ("low", "mid", "high"))
        return f"{show(mid)} ({show(low)} to {show(high)})"

    lines = [
        (
            row["id"],
            row["scenario"],
            row["system"],
            row["phase"],
            band(row, "time", "_s", duration),
            band(row, "gpu_hours"),
            band(row, "kwh"),
            band(row, "usd"),
            f"{row['share']:.0%}",
            row["bound_by"],
            row["basis"],
        )
        for row in rows
    ]
    return _table(columns, lines, ("time", "GPU-hours", "kWh", "USD", "share"))


def provenance(run: Run) -> Table:
    """Return with what the run was made."""
    m = run.manifest
    methods = dict.fromkeys(
        "; ".join(f"{k}: {v}" for k, v in row.method.items() if not isinstance(v, list | dict))
        for row in run.measurement_rows
        if row.method
    )
    rows: list[tuple[str, str]] = [
        ("Command", " ".join(m.command)),
        ("Code", m.commit or "not a git checkout"),
        ("Software", ", ".join(f"{k} {v}" for k, v in m.software.items())),
        ("Settings", "; ".join(f"{k}: {v}" for k, v in m.settings.items())),
        *(("Method", text) for text in list(methods)[:4]),
        ("Data", "measurements.jsonl and run.json in this folder; everything else can be made again from them"),
    ]
    return _table(("", "value"), [row for row in rows if row[1]])


def sources(items: Sequence[Projection]) -> Table:
    """Return the sources that the projections' ceilings cite."""
    found = {key: source for p in items for key, source in p.sources.items()}
    rows = [(s["key"], s["title"], s["date"], s.get("url")) for s in found.values()]
    return _table(("key", "title", "date", "address"), rows)
