"""The names of the ceilings, and which kernels measure each."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Literal

from ...kernels.contract import UnsupportedError
from ..cases import device_kind
from ..machine import Machine, inspect_machine
from .candidates import Candidate
from .setting import Setting
from .working_set import levels

ACCESSES = ("read", "write", "copy", "triad")
ONE_THREAD = "one_thread."
_RATES = ("vector.fp32", "vector.fp64", "vector.bf16", "vector.int8", "exp.fp32", "compare.fp32")
_MATRIX = ("matrix.fp32", "matrix.bf16", "matrix.fp16", "matrix.int8")
_QUICK = {
    "cpu": (
        *("dram.read", "dram.copy", "dram.triad", "llc.read"),
        *("vector.fp32", "matrix.fp32", "matrix.bf16", "exp.fp32", "compare.fp32"),
    ),
    "cuda": ("dram.read", "dram.copy", "dram.triad", "matrix.fp32", "matrix.bf16"),
}

Unit = Literal["bytes/s", "FLOP/s", "op/s", "s"]


class UnknownCeilingError(LookupError):
    """A ceiling that is not known for a device; the message gives near names."""


def ceiling_names(device: str = "cpu", *, full: bool = False, machine: Machine | None = None) -> list[str]:
    """Return the names of a device's ceilings, in the order in which they are measured.

    Parameters
    ----------
    device
        ``cpu`` or ``cuda:<number>``.
    full
        All of them, instead of those that judge the shipped operators. On a CPU the names begin with ``one_thread.``
        where one thread works instead of all.
    machine
        This machine, if it was looked at already.
    """
    kind = device_kind(device)
    if not full:
        return list(_QUICK[kind])
    if kind == "cuda":
        return [*(f"dram.{access}" for access in ACCESSES), *_MATRIX, "matrix.fp8"]
    machine = machine or inspect_machine()
    threads = machine.allowed_cores
    bandwidths = [f"{level.name}.{access}" for level in reversed(levels(machine, threads)) for access in ACCESSES]
    latencies = [f"{level.name}.latency" for level in reversed(levels(machine, 1))]
    names = [*bandwidths, *latencies, *_RATES, *_MATRIX]
    if threads > 1:
        alone = [f"{level.name}.{access}" for level in reversed(levels(machine, 1)) for access in ACCESSES]
        names += [f"{ONE_THREAD}{name}" for name in (*alone, *_RATES, *_MATRIX)]
    return names


def check_names(device: str, names: Sequence[str] | None) -> list[str]:
    """Return the names to measure, or the quick set.

    Raises
    ------
    UnknownCeilingError
        If one is not known for the device.
    """
    if names is None:
        return ceiling_names(device)
    known = {*ceiling_names(device, full=True), *ceiling_names(device)}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known))}"
            raise UnknownCeilingError(f"unknown ceiling {name!r} of device {device}; {hint}")
    return list(names)


def unit(name: str) -> Unit:
    """Return the unit of a ceiling's value."""
    head, _, tail = name.removeprefix(ONE_THREAD).partition(".")
    if tail == "latency":
        return "s"
    if tail in ACCESSES:
        return "bytes/s"
    return "op/s" if tail == "int8" or head in ("exp", "compare") else "FLOP/s"


def is_level(name: str) -> bool:
    """Return whether a ceiling is a bandwidth or latency of a memory level."""
    return name.removeprefix(ONE_THREAD).partition(".")[2] in (*ACCESSES, "latency")


def candidates(name: str, setting: Setting) -> list[Candidate]:
    """Return the kernels that compete for a ceiling.

    Raises
    ------
    UnsupportedError
        If it cannot be measured here; the message says why.
    """
    head, _, tail = name.removeprefix(ONE_THREAD).partition(".")
    if head == "matrix":
        from .torch_matmul import matmul_candidates

        return matmul_candidates(tail, setting.device, setting.threads)
    if setting.device.name != "cpu":
        from .gpu import gpu_bandwidth_candidates

        return gpu_bandwidth_candidates(tail, setting.device)
    if tail in (*ACCESSES, "latency"):
        return _memory_candidates(head, tail, setting)
    from . import cpu_compute

    if head == "exp":
        return cpu_compute.exp_candidates(setting.threads)
    if head == "compare":
        return cpu_compute.compare_candidates(setting.threads)
    if tail in ("bf16", "int8"):
        return cpu_compute.dot_candidates(tail, setting.threads)
    return cpu_compute.fma_candidates(tail, setting.threads)


def _memory_candidates(head: str, access: str, setting: Setting) -> list[Candidate]:
    from .cpu_bandwidth import ARRAYS, bandwidth_candidates
    from .cpu_latency import latency_candidates

    level = next((level for level in setting.seen_levels() if level.name == head), None)
    if level is None:
        raise UnsupportedError(
            f"no knee of {head} in the sweep of working sets with {setting.threads} thread(s): "
            "reading inside it is not clearly faster than one level further out"
        )
    if access == "latency":
        return latency_candidates(level.set_bytes)
    if head == "dram":
        return bandwidth_candidates(access, level.set_bytes * ARRAYS[access], setting.threads, in_cache=False)
    return bandwidth_candidates(access, level.set_bytes, setting.threads, in_cache=True)
