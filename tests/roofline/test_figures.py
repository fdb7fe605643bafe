"""Figures: every valid point is drawn, refused ones are crossed out, labels keep apart."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofcast.profiler.schema import Measurement
from roofcast.profiler.store import Run, StoreError
from roofcast.roofline.figure_style import REFUSED, colour_of, duration, save, si, spread
from roofcast.roofline.interactive import interactive_roofline
from roofcast.roofline.plot import roofline_figure, write_figures
from roofcast.roofline.plot_projections import projections_figure
from roofcast.roofline.projection_table import write_projections
from roofcast.roofline.roofline_points import roofline_points, shape_labels
from roofcast.roofline.run_ceilings import ceilings_of_run

Save = Callable[..., Run]


def test_files_are_png_and_svg(save_run: Save, judged_rows: list[Any]) -> None:
    run = save_run(judged_rows)
    write_projections(run, ["b200-hgx", "vera-rubin-nvl72"])
    paths = write_figures(run)
    assert [p.name for p in paths] == ["roofline_cpu.png", "roofline_cpu.svg", "projections.png", "projections.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in paths[1].read_text()


def test_a_row_above_its_roof_is_crossed_out(save_run: Save, judged_rows: list[Any]) -> None:
    run = save_run(judged_rows)
    figure = roofline_figure(run.measurement_rows, ceilings_of_run(run)["cpu"])
    lines = figure.axes[0].get_lines()
    crosses = [line for line in lines if line.get_marker() == "x"]
    assert [line.get_color() for line in crosses] == [REFUSED]
    refused = next(p for p in roofline_points(run.measurement_rows) if p.refused)
    drawn = [float(y) for line in lines if line.get_marker() in ("o", "s", "^", "D") for y in line.get_ydata()]
    assert refused.rate not in drawn
    valid = [p for p in roofline_points(run.measurement_rows) if not p.refused]
    assert {p.rate for p in valid} <= set(drawn)


def test_ceilings_are_labelled_with_value_and_origin(save_run: Save, judged_rows: list[Any]) -> None:
    run = save_run(judged_rows)
    figure = roofline_figure(run.measurement_rows, ceilings_of_run(run)["cpu"])
    texts = [t.get_text() for t in figure.axes[0].texts]
    assert "dram.read  50 GB/s (measured)" in texts
    assert any(t.startswith("ridge") for t in texts)
    assert "matrix.bf16  930 GFLOP/s (measured)" in texts


def test_a_run_of_ceilings_alone_is_drawn(save_run: Save, judged_rows: list[Any]) -> None:
    rows = [row for row in judged_rows if not isinstance(row, Measurement)]
    assert len(write_figures(save_run(rows))) == 2


def test_points_stand_at_their_roofs_distance(save_run: Save, judged_rows: list[Any]) -> None:
    for point in roofline_points(save_run(judged_rows).measurement_rows):
        assert point.roof_rate is not None
        assert point.rate / point.roof_rate == pytest.approx(point.row.fraction_of_roof)
        assert point.rate_low <= point.rate <= point.rate_high


def test_the_interactive_figure_has_every_point(save_run: Save, judged_rows: list[Any]) -> None:
    run = save_run(judged_rows)
    figure = interactive_roofline(run.measurement_rows, ceilings_of_run(run)["cpu"])
    names = [str(trace.name) for trace in figure.data]
    assert "attention.decode numba" in names
    assert "refused: sampling.logprob user" in names


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, save_run: Save, judged_rows: list[Any]) -> None:
    run = save_run(judged_rows)
    figure = roofline_figure(run.measurement_rows, ceilings_of_run(run)["cpu"])
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write figures"):
        save(figure, tmp_path / "file" / "figures", "x")


@given(st.lists(st.floats(-1e3, 1e3), max_size=12), st.floats(0.01, 10))
def test_labels_keep_their_distance_and_order(positions: list[float], gap: float) -> None:
    placed = spread(positions, gap)
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    ordered = [placed[i] for i in order]
    assert all(b - a >= gap * (1 - 1e-6) - 1e-9 for a, b in itertools.pairwise(ordered))
    assert sum(placed) == pytest.approx(sum(positions), abs=1e-6 * (1 + sum(map(abs, positions))))


def test_numbers_read_well() -> None:
    assert si(51.3e9, "bytes/s") == "51.3 GB/s"
    assert duration(73.2e-6) == "73.2 us"
    assert colour_of("b", ["a", "b"]) == colour_of("b", ["b", "a", "b"])


def test_labels_tell_workloads_of_an_operator_apart(measurement: Callable[..., Measurement]) -> None:
    rows = [
        measurement(key="a", workload={"rows": 64, "precision": "fp32"}),
        measurement(key="b", workload={"rows": 64, "precision": "bf16"}),
        measurement("moe.routing", key="c", workload={"tokens": 1}),
    ]
    assert shape_labels(rows) == {"a": "precision=fp32", "b": "precision=bf16", "c": ""}


def test_a_long_legend_names_each_implementation_once(
    save_run: Save, judged_rows: list[Any], measurement: Callable[..., Measurement]
) -> None:
    rows = [measurement(key=f"k{n}", workload={"batch": n}, time_s=1e-2 * n) for n in range(1, 21)]
    run = save_run([*judged_rows, *rows])
    figure = roofline_figure(run.measurement_rows, ceilings_of_run(run)["cpu"])
    texts = [t.get_text() for t in figure.legends[0].get_texts()]
    assert texts.count("attention.decode numba") == 1


def test_a_figure_of_many_cases_says_what_it_leaves_out(
    save_run: Save, judged_rows: list[Any], measurement: Callable[..., Measurement]
) -> None:
    rows = [measurement(key=f"k{n}", workload={"batch": n}) for n in range(1, 21)]
    run = save_run([row for row in judged_rows if row.record == "ceiling"] + rows)
    figure = projections_figure(write_projections(run, ["b200-hgx"]))
    assert len(figure.axes) == 16
    assert "16 of 20" in figure.get_suptitle()
