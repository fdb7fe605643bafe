"""The chain behind one time that was carried from a GPU's measured tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..bands import maturity_factor
from ..explain import Chain, Step, UnknownRowError, citation
from ..figure_style import duration, si
from ..roofs import able_rates
from ..silicon import import_gpu, silicon_gpu
from ..targets import Target, load_target
from .calibration import Calibration, taught_basis
from .conformal import SIZES, size_of
from .device import Speeds, speeds_of
from .model import Carried, carry, overheads
from .pairs import basis_between, gpu_speeds
from .project import project_rows
from .shipped import calibration_for
from .terms import RESOURCES, terms

if TYPE_CHECKING:
    import pandas as pd

# Names of a message that several rows fit.
_NAMED = 4
_WORK = {"matrix": "flops", "exp": "exponentials", "vector": "vector_flops", "link": "link_bytes"}


def explain_silicon(gpu: str, row: str, *, workloads: Sequence[str] = (), kernel: str = "") -> Chain:
    """Return the chain behind a measured row of a GPU's tables, carried to another device.

    Parameters
    ----------
    gpu
        A GPU of the tables, such as ``h200``.
    row
        ``attention.decode@b200-hgx``: operator and target.
    workloads
        Fields that the row's workload must have, such as ``batch=8``.
    kernel
        Whole parts of its group's name, such as ``vllm | bf16``: framework, version, kernel, precision.

    Raises
    ------
    UnknownRowError
        If no row fits, or several do.
    UnknownGpuError, SiliconMissingError, hwprofiles.UnknownProfileError
        As `import_gpu` and `load_target`.
    """
    here = silicon_gpu(gpu)
    operator, _, name = row.partition("@")
    if not name:
        raise UnknownRowError(f"{row!r}: give an operator and a target, such as attention.decode@b200")
    target, tables = load_target(name), import_gpu(here.name)
    rows = tables.rows[tables.rows["operator"] == operator]
    if rows.empty:
        known = ", ".join(sorted(tables.rows["operator"].astype(str).unique()))
        raise UnknownRowError(f"{here.name} has no row of {operator!r}; its operators: {known}")
    rows = rows.assign(overhead_s=overheads(rows))
    one = _chosen(here.name, rows, workloads, kernel)
    line = project_rows(one, gpu_speeds(here.name), target).iloc[0]
    title = (
        f"{line['group']} on {target.title}: {duration(line['mid_s'])} ({duration(line['low_s'])} to "
        f"{duration(line['high_s'])}), bound by {line['bound_by']}, basis {line['basis']}"
    )
    return Chain(row, title, tuple(_steps(one, line, gpu_speeds(here.name), target, tables.source)))


def _chosen(gpu: str, rows: pd.DataFrame, workloads: Sequence[str], kernel: str) -> pd.DataFrame:
    pieces = {piece.strip() for piece in kernel.split("|")} - {""}
    groups = {group: pieces <= set(str(group).split(" | ")) for group in rows["group"].unique()}
    wanted = rows[rows["group"].astype(object).map(groups)]
    for part in workloads:
        padded = ", " + wanted["workload"].astype(str) + ","
        wanted = wanted[padded.str.contains(f", {part},", regex=False)]
    if len(wanted) == 1:
        return wanted
    asked = " and ".join([*workloads, *([f"kernel {kernel!r}"] if kernel else [])]) or "that operator"
    shown = (wanted if len(wanted) else rows).sort_values("time_s").head(_NAMED)
    some = "; ".join(f"{r['group']}: {r['workload']}" for r in shown.to_dict("records"))
    many = f"{len(wanted):,} rows" if len(wanted) else "no row"
    raise UnknownRowError(f"{gpu} has {many} of {asked}; choose one by --workload and --kernel, such as {some}")


def _steps(one: pd.DataFrame, line: pd.Series, source: Speeds, target: Target, cited: str) -> Iterable[Step]:
    there = speeds_of(target)
    calibration = calibration_for(there)
    carried = carry(one, one["overhead_s"].to_numpy(), source, there, calibration.parameters)
    row = one.iloc[0]
    yield Step(
        "measurement",
        f"Measured on {source.title}",
        (
            ("kernel", str(row["group"]), cited),
            ("workload", str(row["workload"]), ""),
            ("time", duration(row["time_s"]), ""),
            ("fixed time", f"{duration(carried.overhead_s[0])}, the same for all rows of this kernel", ""),
        ),
    )
    yield Step("terms", f"Terms at the specified rates, {source.title} and {target.title}",
               tuple(_terms(one, source, there)))  # fmt: skip
    yield Step("formula", "Formula", tuple(_formula(row, carried, source, there, calibration)))
    yield Step("band", "Band", tuple(_band(one, line, carried, source, target, calibration)))
    used = [*able_rates(str(row["rate"])), *able_rates("vector.fp32"), "dram.read", "exp.fp32", "link.scaleup"]
    cited_there = " ".join(target.specified[name].source for name in used if name in target.specified)
    known = [s for key, s in target.sources.items() if key in cited_there]
    yield Step("sources", f"Sources of {target.title}", tuple(citation(s) for s in known))


def _terms(one: pd.DataFrame, source: Speeds, target: Speeds) -> Iterable[tuple[str, str, str]]:
    here, there = terms(one, source)[0], terms(one, target)[0]
    row = one.iloc[0]
    for number, name in enumerate(RESOURCES):
        work = row[_WORK[name]] if name in _WORK else row["read_bytes"] + row["write_bytes"]
        if work <= 0:
            continue
        unit = {"matrix": "FLOP", "vector": "FLOP", "exp": "exp"}.get(name, "bytes")
        yield name, f"{si(work, unit)}: {duration(here[number])}, then {duration(there[number])}", ""


def _formula(
    row: pd.Series, carried: Carried, source: Speeds, target: Speeds, calibration: Calibration
) -> Iterable[tuple[str, str, str]]:
    p = calibration.parameters
    here, there, share = carried.roof_source_s[0], carried.roof_target_s[0], carried.share_of_roof[0]
    exponent = p.exponent.get(str(row["operator_class"]), p.exponent["other"])
    issue = (target.issue / source.issue) ** p.mix * (target.clock / source.clock) ** (1 - p.mix)
    yield "roof", f"{duration(here)}, then {duration(there)}: the {p.power:g}-norm of the terms", ""
    yield "efficiency", f"{carried.efficiency[0]:.3g} of the roof there, the fixed time taken off", "this very row"
    why = f"exponent of class {row['operator_class']}, fitted on the pairs below"
    yield "share of the roof", f"{carried.efficiency[0]:.3g} ^ {exponent:g} = {share:.3g}", why
    yield "issue rate and clock", f"x {issue:.3g} ({p.mix:g} of SMs x clock, the rest of the clock)", "the profiles"
    rest = row["time_s"] - carried.overhead_s[0]
    numbers = f"{duration(rest)} x {there / here:.3g}^{share:.3g} / {issue:.3g}^{1 - share:.3g}"
    total = f"{duration(carried.overhead_s[0])} + {numbers} = {duration(carried.time_s[0])}"
    yield "middle", f"fixed + rest x (roof ratio)^share / (issue ratio)^(1 - share) = {total}", ""


def _band(
    one: pd.DataFrame, line: pd.Series, carried: Carried, source: Speeds, target: Target, calibration: Calibration
) -> Iterable[tuple[str, str, str]]:
    basis = taught_basis(basis_between(source, speeds_of(target)))
    taught = calibration.bands.taught(basis)
    size = size_of(carried.overhead_s, carried.time_s)
    low, high = calibration.bands.of(basis, one["operator_class"], size)
    pairs = ", ".join(calibration.pairs.get(taught, ()))
    part = ("most", "a part", "little")[int(size[0])]
    note = (
        f"errors of {taught}, class {one.iloc[0]['operator_class']}, {SIZES[int(size[0])]} times ({part} of it fixed)"
    )
    yield "conformal", f"x {low[0]:.3g} to x {high[0]:.3g}: 10th to 90th percentile of {note}", f"pairs {pairs}"
    held = calibration.left_out.get(taught)
    if held is not None:
        yield "tested", f"held {held:.0%} where a family was left out of the teaching in turn", ""
    if line["basis"] == "two_generations":
        yield "two generations", "both ends to the power of the root of 2: two steps, taken as independent", ""
    best, worst = (speeds_of(target, case) for case in ("high", "low"))
    ends = [carry(one, carried.overhead_s, source, s, calibration.parameters).time_s[0] for s in (best, worst)]
    if not np.allclose(ends, carried.time_s[0]):
        yield "specifications", f"{duration(ends[0])} to {duration(ends[1])} at the ends of the sources' range", ""
    for factor in maturity_factor(target):
        yield factor.name, f"x {factor.low:.3g} to x {factor.high:.3g} ({factor.origin}); {factor.note}", factor.source
    yield "low to high", f"{duration(line['low_s'])} to {duration(line['high_s'])}", ""
