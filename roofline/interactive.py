"""The roofline as an interactive figure for the report: hover for the figures of every point and ceiling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..profiler.schema import Measurement
from .ceilings import Ceilings
from .figure_style import INK, REFUSED, colour_of, duration, si
from .plot import drawn_ceilings
from .roofline_points import Point, roofline_points, shape_labels

if TYPE_CHECKING:
    import plotly.graph_objects as go

_SYMBOLS = {"numba": "circle", "torch": "square", "triton": "triangle-up", "user": "diamond"}
_DASHES = {"read": "solid", "copy": "dash", "triad": "dot", "write": "dashdot"}


def interactive_roofline(rows: Sequence[Measurement], ceilings: Ceilings) -> go.Figure:
    """Return one device's roofline as a plotly figure, log-log."""
    import plotly.graph_objects as go

    points = roofline_points(rows)
    bandwidths, rates = drawn_ceilings(ceilings)
    peak = max((c.value for c in rates), default=max((p.rate for p in points), default=1e12))
    slowest = min((c.value for c in bandwidths), default=peak)
    xs = [p.intensity for p in points] + [peak / slowest]
    left, right = min(xs) / 4, max(xs) * 4
    figure = go.Figure()
    for ceiling in bandwidths:
        ends = [left, min(right, peak / ceiling.value)]
        figure.add_scatter(
            x=ends,
            y=[x * ceiling.value for x in ends],
            mode="lines",
            name=f"{ceiling.name} {si(ceiling.value, ceiling.unit)}",
            line={"color": INK, "width": 1.5, "dash": _DASHES.get(ceiling.name.partition(".")[2], "solid")},
            hovertemplate=f"{ceiling.name}: {si(ceiling.value, ceiling.unit)}<br>{ceiling.source}<extra></extra>",
        )
    fastest = max((c.value for c in bandwidths), default=peak)
    for ceiling in rates:
        figure.add_scatter(
            x=[max(left, ceiling.value / fastest), right],
            y=[ceiling.value] * 2,
            mode="lines",
            name=f"{ceiling.name} {si(ceiling.value, ceiling.unit)}",
            line={"color": "#6A6A6A", "width": 1.5},
            hovertemplate=f"{ceiling.name}: {si(ceiling.value, ceiling.unit)}<br>{ceiling.source}<extra></extra>",
        )
    shapes = shape_labels([point.row for point in points])
    for point in points:
        _add_point(figure, point, [p.row.operator for p in points], shapes[point.row.key])
    figure.update_xaxes(type="log", title="operational intensity (FLOP per compulsory byte of main memory)", dtick=1)
    figure.update_yaxes(type="log", title="rate (FLOP/s)", exponentformat="SI", dtick=1)
    figure.update_layout(
        template="simple_white", height=560, margin={"l": 70, "r": 20, "t": 20, "b": 60}, font={"size": 12}
    )
    return figure


def _add_point(figure: go.Figure, point: Point, operators: Sequence[str], shape: str) -> None:
    row = point.row
    label = f"{row.operator} {row.implementation} {shape}".strip()
    share = f"<br>{row.fraction_of_roof:.1%} of {row.bound_by}" if row.fraction_of_roof is not None else ""
    text = f"{label}<br>{duration(row.median_s or 0.0)}, {si(point.rate, 'FLOP/s')}{share}"
    if point.refused:
        text += "<br>refused: above a roof, not a result"
    figure.add_scatter(
        x=[point.intensity],
        y=[point.rate],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, point.rate_high - point.rate)],
            "arrayminus": [max(0.0, point.rate - point.rate_low)],
        },
        mode="markers",
        name=f"refused: {label}" if point.refused else label,
        marker={
            "symbol": "x-thin-open" if point.refused else _SYMBOLS.get(row.backend, "diamond"),
            "color": REFUSED if point.refused else colour_of(row.operator, operators),
            "size": 11,
        },
        hovertemplate=f"{text}<extra></extra>",
    )
