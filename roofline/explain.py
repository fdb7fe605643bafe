"""The chain behind one number of a run: measured row, ceilings, formula, band, sources."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..profiler.schema import Measurement
from ..profiler.store import Run
from .ceilings import Ceilings
from .figure_style import duration, si
from .loop.table import read_loop
from .projected import Projection
from .projection_table import read_projections
from .run_ceilings import ceilings_of_run


class UnknownRowError(LookupError):
    """A row that a run does not have; the message gives near ids."""


@dataclass(frozen=True)
class Step:
    """One link of a chain: what it is, and its figures as (name, value, source) lines."""

    kind: str
    title: str
    figures: tuple[tuple[str, str, str], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        figures = [{"name": n, "value": v, "source": s} for n, v, s in self.figures]
        return {"kind": self.kind, "title": self.title, "figures": figures}


@dataclass(frozen=True)
class Chain:
    """All links behind one number, from the number down to its sources."""

    row: str
    title: str
    steps: tuple[Step, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"row": self.row, "title": self.title, "steps": [step.as_dict() for step in self.steps]}

    def lines(self) -> list[str]:
        """Return the chain as text, one line per figure."""
        out = [f"{self.row}: {self.title}"]
        for step in self.steps:
            out += ["", step.title]
            for name, value, source in step.figures:
                out.append("  " + ": ".join(part for part in (name, value) if part))
                if source:
                    out.append(f"      from {source}")
        return out


def explain(run: Run, row: str) -> Chain:
    """Return the chain behind a row of a run.

    Parameters
    ----------
    row
        ``P3`` (a projection), ``attention.decode@b200-hgx`` (the same, where only one fits), ``L2`` (a row of the
        loop cost) or a measured case's key.

    Raises
    ------
    UnknownRowError
        If the run has no such row, or several fit.
    StoreError
        If ``projections.parquet`` or ``loop.parquet`` cannot be read.
    """
    projections, loop = read_projections(run.path), read_loop(run.path)
    found = [p for p in projections if row in (p.id, p.label)]
    if len(found) > 1:
        ids = ", ".join(p.id for p in found)
        raise UnknownRowError(f"{row} names several rows of {run.path}: {ids}; give one of these")
    if found:
        return Chain(found[0].id, _headline(found[0]), tuple(_projection_steps(run, found[0])))
    for line in loop:
        if line["id"] == row:
            return _loop_chain(run, line, projections)
    for measured in run.measurement_rows:
        if measured.key == row:
            return Chain(row, measured.operator, tuple(_measured_steps(run, measured)))
    known = [*(p.id for p in projections), *(str(r["id"]) for r in loop), *(p.label for p in projections)]
    raise UnknownRowError(_unknown(run, row, [*known, *(r.key for r in run.measurement_rows)], bool(known)))


def _unknown(run: Run, row: str, known: Sequence[str], derived: bool) -> str:
    near = difflib.get_close_matches(row, known, n=3, cutoff=0.4)
    # Keys of measured rows are long; the first ids are enough to see what an id looks like.
    ids = [name for name in known if "|" not in name][:12]
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(ids) or 'only measured rows, by key'}"
    if not derived:
        hint += f"; for projected rows run roofcast project {run.path} first"
    return f"{run.path} has no row {row!r}; {hint}"


def _headline(item: Projection) -> str:
    what = f"{item.operator} {item.implementation}".strip()
    return (
        f"{what} on {item.target_title}: {duration(item.time_mid_s)} ({duration(item.time_low_s)} to "
        f"{duration(item.time_high_s)}), bound by {item.bound_by}, basis {item.basis}"
    )


def _projection_steps(run: Run, item: Projection) -> Iterable[Step]:
    row = next((r for r in run.measurement_rows if r.key == item.source_key), None)
    if row is not None:
        yield from _measured_steps(run, row)
    figures = []
    for term in item.terms:
        rate = "op" if term["unit"] not in ("bytes", "FLOP") else term["unit"]
        wide = term["specified_low"] < term["specified_high"]
        span = f" ({si(term['specified_low'], '')} to {si(term['specified_high'], '')})" if wide else ""
        value = (
            f"{si(term['work'], rate)} at {si(term['ceiling'], rate + '/s')} is {duration(term['roof_s'])}; "
            f"{term['origin']} {si(term['specified'], rate + '/s')}{span}"
        )
        figures.append((term["resource"], value, term["source"]))
        used = f"{term['efficiency']:.3g}, so {duration(term['time_s'])}"
        figures.append((f"{term['resource']} efficiency", used, term["efficiency_from"]))
    yield Step("ceilings", f"Ceilings of {item.target_title}, attained, and the roofs under them", tuple(figures))
    middle = [("fixed overhead", duration(item.overhead_s), ""), ("middle", item.formula, "")]
    yield Step("formula", "Formula", (*middle, *(("note", note, "") for note in item.notes)))
    band = [
        (f["name"], f"x {f['low']:.3g} to x {f['high']:.3g} ({f['origin']}); {f['note']}", f["source"])
        for f in item.factors
    ]
    ends = [("low to high", f"{duration(item.time_low_s)} to {duration(item.time_high_s)}", "")]
    yield Step("band", "Band: low at the ceilings' high ends, high at their low ends, and these factors",
               tuple(band + ends))  # fmt: skip
    yield Step("sources", "Sources", tuple(citation(s) for s in item.sources.values()))


def citation(source: dict[str, Any]) -> tuple[str, str, str]:
    """Return a profile's source as a line of a chain."""
    return source["key"], f"{source['title']} ({source['date']})", source.get("url") or ""


def _measured_steps(run: Run, row: Measurement) -> Iterable[Step]:
    where = f"{run.path / 'measurements.jsonl'}, {row.started_at}, code {row.commit or 'unknown'}"
    shape = ", ".join(f"{k}={v}" for k, v in row.workload.items())
    figures = [("case", row.key, where), ("workload", shape, ""), ("status", f"{row.status} {row.message}".strip(), "")]
    if row.median_s is not None:
        span = ""
        if row.ci95_low_s is not None and row.ci95_high_s is not None:
            span = f" (95 % interval {duration(row.ci95_low_s)} to {duration(row.ci95_high_s)})"
        figures.append(("median", f"{duration(row.median_s)}{span}, {len(row.samples_s)} samples", row.device_name))
    yield Step("measurement", "Measured row", tuple(figures))
    ceilings = ceilings_of_run(run).get(row.device)
    if ceilings is not None and row.roofs_s:
        yield Step("roofs", f"Roofs on {ceilings.title}", tuple(_roofs(row, ceilings)))


def _roofs(row: Measurement, ceilings: Ceilings) -> Iterable[tuple[str, str, str]]:
    for name, time_s in sorted(row.roofs_s.items(), key=lambda pair: -pair[1]):
        ceiling = ceilings.get(name)
        share = f", {time_s / row.median_s:.1%} of the time" if row.median_s else ""
        value = f"{duration(time_s)}{share}"
        if ceiling is None:
            yield name, value, ""
            continue
        value += f", at {si(ceiling.value, ceiling.unit)} ({si(ceiling.low, '')} to {si(ceiling.high, '')})"
        yield name, value, f"{ceiling.source}; {ceiling.note}" if ceiling.note else ceiling.source


def _loop_chain(run: Run, line: dict[str, Any], projections: Sequence[Projection]) -> Chain:
    title = (
        f"{line['phase']} of {line['scenario']} on {line['system']}: {duration(line['time_mid_s'])} "
        f"({duration(line['time_low_s'])} to {duration(line['time_high_s'])}), "
        f"{line['usd_mid']:.4g} USD ({line['usd_low']:.4g} to {line['usd_high']:.4g}), basis {line['basis']}"
    )
    chain: dict[str, Any] = line["provenance"]
    figures: list[tuple[str, str, str]] = []
    sources: dict[str, None] = {}
    referred: dict[str, None] = {}
    for term in chain["terms"]:
        span = f"{duration(term['time_mid_s'])} ({duration(term['time_low_s'])} to {duration(term['time_high_s'])})"
        figures.append((term["name"], f"{span}, by {term['bound_by']}, {term['basis']}: {term['formula']}", ""))
        if term["reference"]:
            figures.append(("", term["reference"], ""))
        sources |= dict.fromkeys(str(source) for source in term["sources"])
        referred |= dict.fromkeys(re.findall(r"\bP\d+\b", term["reference"]))
    steps = [Step("terms", "Terms of the time", tuple(figures))]
    steps.append(Step("facts", "Facts of the phase", tuple((str(k), _text(v), "") for k, v in chain["facts"].items())))
    money = [
        (name, f"{p['mid']:.4g} {p['unit']} ({p['low']:.4g} to {p['high']:.4g})", str(p["source"]))
        for name in ("price", "power")
        if (p := chain.get(name))
    ]
    steps.append(Step("price", "Price and power", tuple(money)))
    if sources:
        steps.append(Step("sources", "Sources", tuple(("", source, "") for source in sources)))
    for item in projections:
        if item.id in referred:
            steps.append(Step("projection", f"Projection {item.id}", (("", _headline(item), ""),)))
            steps += _projection_steps(run, item)
    return Chain(str(line["id"]), title, tuple(step for step in steps if step.figures))


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
