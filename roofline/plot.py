"""The roofline figure of a device, and all figures of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..profiler.schema import Measurement
from ..profiler.store import Run
from .ceilings import Ceiling, Ceilings
from .figure_style import FAINT, INK, MARKERS, RC, REFUSED, colour_of, save, si, spread
from .projection_table import read_projections
from .roofline_points import Point, roofline_points, shape_labels
from .run_ceilings import ceilings_of_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVEL_COLOUR = {"dram": INK, "llc": "#6A6A6A", "l3": "#6A6A6A", "l2": "#8A8A8A", "l1": "#A8A8A8"}
# A legend of more points than this names operators and implementations once each.
_MOST_IN_LEGEND = 14
_ACCESS_STYLE: Any = {"read": "-", "copy": "--", "triad": ":", "write": "-."}


def write_figures(run: Run) -> list[Path]:
    """Draw a run's figures into ``figures/``: a roofline per device, and the projections if there are any.

    Returns
    -------
    list of Path
        PNG and SVG of each figure.

    Raises
    ------
    StoreError
        If the folder cannot be written.
    """
    from .plot_projections import projections_figure

    paths: list[Path] = []
    folder = run.path / "figures"
    for device, ceilings in ceilings_of_run(run).items():
        rows = [row for row in run.measurement_rows if row.device == device]
        if ceilings.named or roofline_points(rows):
            name = f"roofline_{device.replace(':', '')}"
            paths += save(roofline_figure(rows, ceilings), folder, name)
    projections = read_projections(run.path)
    if projections:
        paths += save(projections_figure(projections), folder, "projections")
    return paths


def drawn_ceilings(ceilings: Ceilings) -> tuple[list[Ceiling], list[Ceiling]]:
    """Return the bandwidths and the FLOP rates that a roofline shows, each fastest first.

    Measurements with one thread are left out; a level's slower accesses stay, drawn thinner.
    """
    named = [c for n, c in ceilings.named.items() if not n.startswith(("one_thread.", "link.", "matrix_"))]
    bandwidths = sorted((c for c in named if c.unit == "bytes/s"), key=lambda c: -c.value)
    rates = sorted((c for c in named if c.unit == "FLOP/s"), key=lambda c: -c.value)
    return bandwidths, rates


def roofline_figure(rows: Sequence[Measurement], ceilings: Ceilings) -> Figure:
    """Draw one device's measured points under its ceilings, log-log.

    Every point has its confidence interval, and a thin line up to a bar at its own roof, which may be a ceiling that
    has no line of its own (exponentials, comparisons). A row above a roof is drawn crossed out.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    points = roofline_points(rows)
    with mpl.rc_context(RC):
        figure = Figure(figsize=(9.6, 6.4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.set_xscale("log")
        axes.set_yscale("log")
        bandwidths, rates = drawn_ceilings(ceilings)
        left, right, bottom, top = _limits(points, bandwidths, rates)
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        _draw_ceilings(axes, bandwidths, rates)
        for point in points:
            _draw_point(axes, point, [p.row.operator for p in points])
        _draw_legend(figure, points, [*bandwidths, *rates])
        axes.set_xlabel("operational intensity (FLOP per compulsory byte of main memory)")
        axes.set_ylabel("rate (FLOP/s)")
        axes.set_title(f"Roofline of {ceilings.title}", loc="left", fontsize=11, fontweight="bold")
        axes.grid(which="major", color="#E4E4E4", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.yaxis.set_major_formatter(lambda value, _: si(value, ""))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        _turn_labels(figure, axes)
    return figure


def _limits(
    points: Sequence[Point], bandwidths: Sequence[Ceiling], rates: Sequence[Ceiling]
) -> tuple[float, float, float, float]:
    slow = min((c.value for c in bandwidths if c.name.startswith("dram.")), default=None)
    ridges = [c.value / slow for c in rates] if slow else []
    xs = [p.intensity for p in points] + ridges or [0.1, 10.0]
    ys = [p.rate for p in points] + [p.roof_rate for p in points if p.roof_rate] + [c.value for c in rates]
    ys = ys or [1e9, 1e12]
    # Room for the label of the fastest bandwidth, which meets the highest rate first.
    first = max((c.value for c in rates), default=0.0) / max((c.value for c in bandwidths), default=math.inf)
    left, right = min([*xs, first / 3] if first > 0 else xs) / 3, max(xs) * 6
    return left, right, min(ys) / 4, max(ys) * 2.5


def _draw_ceilings(axes: Axes, bandwidths: Sequence[Ceiling], rates: Sequence[Ceiling]) -> None:
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    peak = max((c.value for c in rates), default=top)
    fastest: dict[str, Ceiling] = {}
    for ceiling in bandwidths:
        level, _, access = ceiling.name.partition(".")
        first = level not in fastest
        fastest.setdefault(level, ceiling)
        end = min(right, peak / ceiling.value)
        axes.plot(
            [left, end],
            [left * ceiling.value, end * ceiling.value],
            color=_LEVEL_COLOUR.get(level, FAINT),
            linestyle=_ACCESS_STYLE.get(access, "-"),
            linewidth=1.6 if first else 0.8,
            solid_capstyle="butt",
        )
    for ceiling in fastest.values():
        _label_diagonal(axes, ceiling)
    memory = fastest.get("dram") or next(iter(fastest.values()), None)
    widest = max((c.value for c in bandwidths), default=None)
    heights = spread([math.log10(c.value) for c in rates], 0.042 * math.log10(top / bottom))
    for ceiling, height in zip(rates, heights, strict=True):
        start = ceiling.value / widest if widest else left
        axes.plot([max(left, start), right], [ceiling.value] * 2, color=INK, linewidth=1.3)
        axes.annotate(
            f"{_text(ceiling)} ({ceiling.origin})",
            xy=(right, ceiling.value),
            xytext=(right * 1.06, 10**height),
            va="center",
            fontsize=8,
            annotation_clip=False,
        )
        if memory is not None:
            _draw_ridge(axes, ceiling.value / memory.value, ceiling.value)


def _draw_ridge(axes: Axes, intensity: float, rate: float) -> None:
    axes.plot([intensity], [rate], marker="D", markersize=4.5, color="white", markeredgecolor=INK, zorder=4)
    axes.annotate(
        f"ridge {intensity:.3g}", (intensity, rate), (4, -10), textcoords="offset points", fontsize=7, color="#555555"
    )


def _text(ceiling: Ceiling) -> str:
    return f"{ceiling.name}  {si(ceiling.value, ceiling.unit)}"


def _label_diagonal(axes: Axes, ceiling: Ceiling) -> None:
    """Write a bandwidth along its line, near the left edge."""
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    start = max(left, bottom / ceiling.value)
    at = start * (min(right, top / ceiling.value) / start) ** 0.04
    axes.annotate(
        f"{_text(ceiling)} ({ceiling.origin})",
        (at, at * ceiling.value),
        (-3, 4),
        textcoords="offset points",
        rotation_mode="anchor",
        fontsize=8,
        color=_LEVEL_COLOUR.get(ceiling.name.partition(".")[0], FAINT),
        gid="along a bandwidth",
    )


def _turn_labels(figure: Figure, axes: Axes) -> None:
    """Turn the labels of bandwidths along their lines, whose angle is known only once the layout is."""
    figure.draw_without_rendering()
    box = axes.get_window_extent()
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    rise = box.height / math.log10(top / bottom)
    run = box.width / math.log10(right / left)
    for text in axes.texts:
        if text.get_gid() == "along a bandwidth":
            text.set_rotation(math.degrees(math.atan2(rise, run)))


def _draw_point(axes: Axes, point: Point, operators: Sequence[str]) -> None:
    marker = MARKERS.get(point.row.backend, "D")
    if point.refused:
        axes.plot([point.intensity], [point.rate], marker="x", color=REFUSED, markersize=7, linestyle="", zorder=5)
        return
    colour = colour_of(point.row.operator, operators)
    if point.roof_rate:
        ends = [point.rate, point.roof_rate]
        axes.plot([point.intensity] * 2, ends, color=colour, linewidth=0.7, alpha=0.7, zorder=3)
        axes.plot([point.intensity], [point.roof_rate], marker="_", color=colour, markersize=11, zorder=3)
    axes.errorbar(
        [point.intensity],
        [point.rate],
        yerr=[[max(0.0, point.rate - point.rate_low)], [max(0.0, point.rate_high - point.rate)]],
        marker=marker,
        color=colour,
        markeredgecolor="white",
        markeredgewidth=0.6,
        markersize=7,
        elinewidth=1.4,
        capsize=3,
        linestyle="",
        zorder=5,
    )


def _legend_entries(points: Sequence[Point]) -> dict[str, Point]:
    shapes = shape_labels([point.row for point in points])
    entries: dict[str, Point] = {}
    for point in sorted(points, key=lambda p: p.row.operator):
        row = point.row
        text = f"{row.operator} {row.implementation}"
        if len(points) <= _MOST_IN_LEGEND:
            text += f" {shapes[row.key]}" if shapes[row.key] else ""
            text += "" if row.fraction_of_roof is None else f", {row.fraction_of_roof:.0%} of {row.bound_by}"
        entries.setdefault(text, point)
    return entries


def _draw_legend(figure: Figure, points: Sequence[Point], ceilings: Sequence[Ceiling]) -> None:
    from matplotlib.lines import Line2D

    shown = [p for p in points if not p.refused]
    operators = sorted({p.row.operator for p in points})
    handles: list[Any] = []
    for text, point in _legend_entries(shown).items():
        colour, marker = colour_of(point.row.operator, operators), MARKERS.get(point.row.backend, "D")
        handles.append(Line2D([], [], color=colour, marker=marker, linestyle="", markersize=6, label=text))
    if shown:
        handles.append(Line2D([], [], color=FAINT, marker="_", linestyle="", markersize=10, label="a point's own roof"))
    if refused := sum(p.refused for p in points):
        text = f"refused: above a roof ({refused})"
        handles.append(Line2D([], [], color=REFUSED, marker="x", linestyle="", markersize=6, label=text))
    minor = [c for c in ceilings if c.unit == "bytes/s"]
    handles += [
        Line2D(
            [], [], color=_LEVEL_COLOUR.get(c.name.partition(".")[0], FAINT),
            linestyle=_ACCESS_STYLE.get(c.name.partition(".")[2], "-"), linewidth=1.2,
            label=f"{_text(c)} ({c.origin})",
        )
        for c in minor
    ]  # fmt: skip
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=7.5, labelspacing=0.4)
