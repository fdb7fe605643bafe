"""What the benchmarks of operators share: measure our side and its peers in turns, and print the comparison.

Times come from `roofcast.profiler.measure`: every side is checked against the float64 reference before and after it is
timed, sides take turns (A B A B), and the last-level cache is flushed before each sample. The roof is the largest of
those of the ceilings measured in the same run; the one that binds is measured again right after the case, and the
faster reading counts, since on a shared machine the first may have been disturbed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from roofcast.kernels import Workload
from roofcast.profiler.cases import Case
from roofcast.profiler.ceilings import measure_ceilings
from roofcast.profiler.machine import inspect_machine
from roofcast.profiler.measuring import measure
from roofcast.profiler.schema import Measurement
from roofcast.profiler.settings import Settings
from roofcast.profiler.threads import configure_threads
from roofcast.roofline.ceilings import Ceilings, from_rows, machine_capacities
from roofcast.roofline.roofs import bound_by, roofs

# A ceiling may be exceeded by the noise of two medians; more means that a count or a measurement is wrong.
_ABOVE_ROOF = 1.05
_COLUMNS = "{:64} {:>10} {:>10} {:>8} {:>8} {:>11} {:>16} {:4} {}"
_HEADER = _COLUMNS.format("case", "ours", "peer", "speed-up", "of roof", "bound by", "target", "met", "peer")


@dataclass(frozen=True)
class Comparison:
    """One workload, our implementation and its peers.

    Parameters
    ----------
    workload
        The workload; its class names the operator.
    targets
        Wanted speed-up by peer, an implementation's name; None to report it without a target.
    roof_target
        Wanted fraction of the roof, or None.
    ours
        Name of our implementation.
    quick
        Whether it belongs to ``--quick``.
    """

    workload: Workload
    targets: dict[str, float | None]
    roof_target: float | None = None
    ours: str = "numba"
    quick: bool = True


@dataclass(frozen=True)
class Line:
    """One printed comparison; ``met`` is None where there is no target or no result."""

    case: str
    ours_s: float | None
    peer: str
    peer_s: float | None
    speedup: float | None
    fraction_of_roof: float | None
    roof: str
    target: float | None
    met: bool | None
    roof_target: float | None
    message: str = ""


def _ceilings(names: Sequence[str]) -> Ceilings:
    machine = inspect_machine()
    rows = measure_ceilings("cpu", names=names, budget_s=1.0 * len(names), machine=machine)
    return from_rows(rows, capacities=machine_capacities(asdict(machine)))


def _measured_again(ceilings: Ceilings, cost: dict[str, Any]) -> Ceilings:
    name = bound_by(roofs(cost, ceilings))
    if name is None:
        return ceilings
    again = _ceilings([name]).get(name)
    return ceilings.replaced({name: again}) if again and again.value > ceilings[name].value else ceilings


def compare(comparison: Comparison, ceilings: Ceilings, budget_s: float) -> Iterator[Line]:
    """Measure one comparison and yield a line per peer."""
    workload = comparison.workload
    names = (comparison.ours, *comparison.targets)
    cases = [Case(workload.operator, workload, name) for name in names]
    settings = Settings(budget_s=budget_s, warm_up_s=0.5, energy_s=0.0)
    rows = {row.implementation: row for row in measure(cases, settings)}
    ours = rows[comparison.ours]
    ceilings = _measured_again(ceilings, ours.cost)
    for peer, target in comparison.targets.items():
        yield _line(comparison, ours, rows[peer], target, ceilings)


def _line(
    comparison: Comparison, ours: Measurement, peer: Measurement, target: float | None, ceilings: Ceilings
) -> Line:
    times = roofs(ours.cost, ceilings)
    bound = bound_by(times)
    fraction = times[bound] / ours.median_s if bound and ours.median_s else None
    failed = [row for row in (ours, peer) if row.status != "ok"]
    message = "; ".join(f"{row.implementation} {row.status}: {row.message}" for row in failed)
    if fraction is not None and fraction > _ABOVE_ROOF:
        message = f"{ours.implementation} is above the roof {bound}: a count or the ceiling is wrong"
    # A speed-up is only quoted where both sides are right.
    speedup = peer.median_s / ours.median_s if not message and peer.median_s and ours.median_s else None
    wants = (target, comparison.roof_target)
    met: bool | None = None
    if message:
        met = False
    elif any(want is not None for want in wants):
        met = all(want is None or (got or 0.0) >= want for got, want in zip((speedup, fraction), wants, strict=True))
    return Line(
        case=f"{comparison.workload.operator} {_short(comparison.workload)}",
        ours_s=ours.median_s,
        peer=peer.implementation,
        peer_s=peer.median_s,
        speedup=speedup,
        fraction_of_roof=fraction,
        roof=bound or "none",
        target=target,
        met=met,
        roof_target=comparison.roof_target,
        message=message,
    )


def _short(workload: Workload) -> str:
    """Return the fields that differ from their defaults, and those that have none."""
    fields = type(workload).__dataclass_fields__
    shown = {k: v for k, v in workload.as_dict().items() if k in list(fields)[:2] or v != fields[k].default}
    return ", ".join(f"{k}={v}" for k, v in shown.items())


def _table_row(line: Line) -> str:
    if line.message:
        return f"{line.case:64} {line.message}"
    wants = [] if line.target is None else [f"{line.target:g}x"]
    wants += [] if line.roof_target is None else [f"{line.roof_target:.0%} of roof"]
    met = {True: "yes", False: "NO", None: "-"}[line.met]
    ours, peer = (f"{(seconds or 0.0) * 1e3:.3f} ms" for seconds in (line.ours_s, line.peer_s))
    speedup, fraction = f"{line.speedup or 0.0:.1f}x", f"{line.fraction_of_roof or 0.0:.1%}"
    return _COLUMNS.format(line.case, ours, peer, speedup, fraction, line.roof, ", ".join(wants), met, line.peer)


def main(description: str, comparisons: Sequence[Comparison], ceiling_names: Sequence[str]) -> None:
    """Run the comparisons of a file; exit code 1 if a side failed or a target was missed.

    Parameters
    ----------
    ceiling_names
        Ceilings that bound these operators; they are measured first.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--json", action="store_true", help="one object per line")
    parser.add_argument("--only", default="", help="only cases whose line contains this text")
    options = parser.parse_args()
    configure_threads()
    chosen = [c for c in comparisons if c.quick or not options.quick]
    chosen = [c for c in chosen if options.only in f"{c.workload.operator} {_short(c.workload)}"]
    if not chosen:
        parser.error(f"--only {options.only!r} leaves no case")
    ceilings = _ceilings(ceiling_names)
    if not options.json:
        found: dict[str, Any] = dict(ceilings.named)
        print("ceilings: " + ", ".join(f"{n} {c.value / 1e9:.4g} G{c.unit}" for n, c in found.items()))
        print(_HEADER, flush=True)
    missed = False
    for comparison in chosen:
        for line in compare(comparison, ceilings, 1.5 if options.quick else 5.0):
            missed |= line.met is False
            text = json.dumps(asdict(line), allow_nan=False) if options.json else _table_row(line)
            print(text, flush=True)
    sys.exit(1 if missed else 0)
