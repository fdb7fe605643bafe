"""Measure the ceilings of a device, one row each."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence

from ..devices import get_device
from ..failures import as_failure
from ..machine import Machine, inspect_machine
from ..machine_state import StateWatch
from ..schema import CeilingRow
from ..times import utc_now
from .candidates import Rates, sample_best
from .catalogue import ONE_THREAD, candidates, check_names, is_level, unit
from .setting import Setting
from .specified import beside_specified, specification_of
from .working_set import knee_text

_VISIT_SHARE = 0.5
_FMA_BITS = {"vector.fp32": 32, "vector.fp64": 64}


def measure_ceilings(
    device: str = "cpu",
    *,
    names: Sequence[str] | None = None,
    budget_s: float | None = None,
    threads: int | None = None,
    progress: Callable[[str], object] | None = None,
    machine: Machine | None = None,
) -> Iterator[CeilingRow]:
    """Measure ceilings and yield a row for each, as it ends.

    Parameters
    ----------
    device
        ``cpu`` or ``cuda:<number>``.
    names
        Ceiling names; default: the quick set. See `catalogue.ceiling_names`.
    budget_s
        Seconds of sampling over all ceilings; default one second each. Compilation and set-up come on top (about
        ten seconds for the quick set on two cores).
    threads
        Threads of the CPU; default: the allowed cores.
    progress
        Called with a ceiling's name before it is measured.
    machine
        This machine, if it was looked at already.

    Yields
    ------
    CeilingRow
        Those of main memory come last, since they are visited twice. Rows whose status is not ``ok`` carry no
        value: ``unsupported`` with the reason, or ``crashed``.

    Raises
    ------
    UnknownCeilingError
        If a name is not known for the device; the message gives near ones.
    DeviceError
        If there is no such device.
    """
    machine = machine or inspect_machine()
    target = get_device(device)
    wanted = check_names(device, names)
    budget_each = 1.0 if budget_s is None else budget_s / max(1, len(wanted))
    all_threads = _start_threads(threads or machine.allowed_cores) if device == "cpu" else 1
    settings = {count: Setting(target, machine, count) for count in (all_threads, 1)}
    specification = specification_of(device, machine)

    def setting_of(name: str) -> Setting:
        return settings[1 if name.startswith(ONE_THREAD) or name.endswith(".latency") else all_threads]

    def row_of(name: str, share: float = 1.0) -> CeilingRow:
        if progress:
            progress(name)
        try:
            return _measure_one(name, setting_of(name), share * budget_each)
        finally:
            # The working sets are large, and some libraries keep them in cycles.
            gc.collect()

    def compared(row: CeilingRow) -> CeilingRow:
        return beside_specified(row, specification, _fma_peak(row, setting_of(row.name)))

    first = {name: row_of(name, _VISIT_SHARE) for name in wanted if _drifts(name)}
    for name in wanted:
        if name not in first:
            yield compared(row_of(name))
    for name, before in first.items():
        yield compared(better_of(before, row_of(name, 1 - _VISIT_SHARE)))
    if device == "cpu":
        _start_threads(all_threads)


def _drifts(name: str) -> bool:
    """Return whether a ceiling is measured twice, at the beginning and at the end.

    In a virtual machine the bandwidth of main memory changes by a factor of two within seconds, as the host moves the
    virtual cores; kernels measured later would meet the better of the two.
    """
    return name.startswith("dram.") and not name.endswith(".latency")


def better_of(one: CeilingRow, other: CeilingRow) -> CeilingRow:
    """Return the better of two visits to a ceiling, with the samples of both and the greatest rate of either."""
    rows = [row for row in (one, other) if row.status == "ok"]
    if len(rows) < 2:
        return rows[0] if rows else other
    best = max(rows, key=lambda row: row.value or 0.0)
    samples = [*one.samples, *other.samples]
    high = max(row.high or 0.0 for row in rows)
    method = f"{best.method}; the better of two visits ({_giga(one)} and {_giga(other)})"
    return best.model_copy(update={"samples": samples, "high": high, "method": method})


def _giga(row: CeilingRow) -> str:
    return f"{(row.value or 0.0) / 1e9:.4g} G{row.unit}"


def _measure_one(name: str, setting: Setting, budget_s: float) -> CeilingRow:
    common = {
        "key": f"{name} | {setting.device.name}",
        "name": name,
        "device": setting.device.name,
        "device_name": setting.device.title,
        "unit": unit(name),
        "threads": setting.threads,
        "started_at": utc_now(),
    }
    try:
        competing = candidates(name, setting)
        watch = StateWatch(setting.device.name)
        watch.start()
        rates = sample_best(competing, setting.device, budget_s, per_step=name.endswith(".latency"))
        throttled = watch.throttled_since_last_look()
        state = watch.stop(lambda seconds: 0, 0.0, throttled=throttled)
    except Exception as error:
        failure = as_failure(error, f"measuring {name}")
        return CeilingRow(**common, status=failure.status, message=failure.message, sweep=_sweep_of(name, setting))
    others = f"best of {len(competing)} kernels; " if len(competing) > 1 else ""
    return CeilingRow(
        **common,
        status="ok",
        message="measured while the device limited its clock" if throttled else "",
        value=rates.value,
        low=rates.low,
        high=rates.high,
        samples=rates.samples,
        working_set_bytes=rates.winner.working_set_bytes,
        sweep=_sweep_of(name, setting),
        method=f"{rates.winner.label}; {others}{rates.stop_reason}{_notes(name, rates, setting)}",
        state=state,
    )


def _sweep_of(name: str, setting: Setting) -> list[tuple[int, float]]:
    """Return the sweep that a memory level was looked for in; empty for what is no level of the CPU's memory."""
    return list(setting.sweep()) if setting.device.name == "cpu" and setting.has_swept and is_level(name) else []


def _notes(name: str, rates: Rates, setting: Setting) -> str:
    """Return what the method adds: the knee of a memory level, the cycles of a multiply-add."""
    if setting.device.name != "cpu":
        return ""
    if is_level(name):
        return f"; {knee_text(name.removeprefix(ONE_THREAD).partition('.')[0], setting.seen_levels())}"
    if name.removeprefix(ONE_THREAD) not in _FMA_BITS:
        return ""
    clock = setting.clock_hz()
    per_cycle = rates.value / clock / setting.threads
    return f"; {per_cycle:.1f} FLOP per cycle and core at {clock / 1e9:.2f} GHz (clock by a chain of additions)"


def _fma_peak(row: CeilingRow, setting: Setting) -> tuple[float, str] | None:
    """Return clock x pipes x lanes x 2 x threads of a multiply-add ceiling, where the core's pipes are known."""
    bits, machine = _FMA_BITS.get(row.name.removeprefix(ONE_THREAD)), setting.machine
    if bits is None or row.device != "cpu" or row.status != "ok":
        return None
    if machine.fma_pipes is None or machine.fma_pipe_bits is None:
        return None
    clock = setting.clock_hz()
    peak = clock * setting.threads * machine.fma_pipes * machine.fma_pipe_bits / bits * 2
    pipes = f"{machine.fma_pipes} pipes of {machine.fma_pipe_bits} bit of {machine.microarchitecture}"
    return peak, f"{pipes} x 2 x {setting.threads} thread(s) at {clock / 1e9:.2f} GHz (measured)"


def _start_threads(count: int) -> int:
    """Give Numba and torch the threads and return how many there are.

    They are not pinned: the calling thread works too, and if it sat on the core of a pinned one, both would run at half
    speed until the system moved it (seen on two cores).
    """
    from ..threads import configure_threads

    count = configure_threads(count)
    import numba
    from numba.core import config

    # A process whose pool is smaller already cannot make it larger.
    count = min(count, int(getattr(config, "NUMBA_NUM_THREADS", count)))
    numba.set_num_threads(count)
    return count
