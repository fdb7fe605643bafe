"""The figure of projected times: a band per target, with the measured time they start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .figure_style import INK, RC, colour_of, duration
from .projected import Projection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# A figure of more panels would not fit a page.
_MOST_PANELS = 16


def projections_figure(projections: Sequence[Projection]) -> Figure:
    """Draw one panel per projected row: on a log scale its time here, and low, middle and high on every target."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    every = _panels(projections)
    panels = every[:_MOST_PANELS]
    heights = [len(panel) + 2.2 for panel in panels]
    with mpl.rc_context(RC):
        figure = Figure(figsize=(9.6, 0.34 * sum(heights) + 0.9), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)
        for axes, panel in zip(grid[:, 0], panels, strict=True):
            _draw_panel(axes, panel, [p.target for p in projections])
        last = grid[-1, 0]
        last.set_xlabel("time of one call (s)")
        last.xaxis.set_major_formatter(lambda value, _: duration(value))
        times = [t for p in projections for t in (p.time_low_s, p.time_high_s, p.source_time_s or p.time_mid_s)]
        last.set_xlim(min(times) / 1.6, max(times) * 1.6)
        title = "Projected times: 80 % band and middle"
        if len(every) > len(panels):
            title += f" (the first {len(panels)} of {len(every)} cases; all are in projections.csv)"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    return figure


def _panels(projections: Sequence[Projection]) -> list[list[Projection]]:
    panels: dict[tuple[str, str, str], list[Projection]] = {}
    for item in projections:
        panels.setdefault((item.source_key, item.operator, item.cache_state), []).append(item)
    return list(panels.values())


def _draw_panel(axes: Axes, panel: Sequence[Projection], targets: Sequence[str]) -> None:
    axes.set_xscale("log")
    first = panel[0]
    names = []
    if first.source_time_s:
        names.append(f"here ({first.implementation})")
        axes.plot([first.source_time_s], [0], marker="o", markersize=6, color="white", markeredgecolor=INK)
        _note(axes, first.source_time_s, 0, f"{duration(first.source_time_s)} measured")
    offset = len(names)
    for place, item in enumerate(panel, offset):
        colour = colour_of(item.target, targets)
        axes.plot([item.time_low_s, item.time_high_s], [place] * 2, color=colour, linewidth=6, alpha=0.35,
                  solid_capstyle="butt")  # fmt: skip
        axes.plot([item.time_mid_s], [place], marker="|", markersize=11, markeredgewidth=2.2, color=colour)
        text = (
            f"{duration(item.time_mid_s)} ({duration(item.time_low_s)} to {duration(item.time_high_s)}), "
            f"by {item.bound_by}, {item.basis.replace('_', ' ')}"
        )
        _note(axes, item.time_high_s, place, text)
        names.append(item.target)
    axes.set_yticks(range(len(names)), names, fontsize=8.5)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", which="major", color="#E4E4E4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_title(f"{first.operator}  {_shape(first)}", loc="left", fontsize=8.5, color=INK)


def _shape(item: Projection) -> str:
    fields = [f"{k}={v}" for k, v in item.workload.items() if v not in (None, 0, False, 0.0, "")]
    text = ", ".join(fields)
    return text if len(text) < 105 else text[:102] + "..."


def _note(axes: Axes, x: float, y: float, text: str) -> None:
    axes.annotate(text, (x, y), (7, 0), textcoords="offset points", va="center", fontsize=7.5, color="#555555")
