"""The report: one page that fetches nothing and hides nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from roofcast.profiler.store import Run
from roofcast.roofline.projection_table import write_projections
from roofcast.roofline.report import render_report, write_report

Save = Callable[..., Run]


@pytest.fixture
def page(save_run: Save, judged_rows: list[Any]) -> str:
    run = save_run(judged_rows)
    write_projections(run, ["b200-hgx", "vera-rubin-nvl72"])
    return render_report(run, interactive=False)


def test_nothing_is_fetched(page: str) -> None:
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!data:|#)""", page) == []
    assert "@import" not in page
    assert "url(" not in page


def test_every_part_is_there(page: str) -> None:
    for name in ("machine", "ceilings", "results", "projections", "provenance"):
        assert f'<h2 id="{name}">' in page
        assert f'href="#{name}"' in page
    assert "cpu_to_gpu" in page
    assert "NVIDIA Vera Rubin NVL72" in page
    assert "2.07x" in page


def test_refused_rows_are_apart_from_results(page: str) -> None:
    results, _, rest = page.partition("<h3>Not results</h3>")
    assert "above_roof" in rest
    assert "<td>user</td>" not in results.partition('<h2 id="results">')[2]
    assert "faster than a measured roof allows" in page


def test_text_of_a_run_cannot_become_markup(save_run: Save, judged_rows: list[Any]) -> None:
    rows = [r.model_copy(update={"device_name": "<script>alert(1)</script>"}) for r in judged_rows]
    run = save_run(rows)
    write_projections(run, ["b200-hgx"])
    assert "<script>alert" not in render_report(run, interactive=False)


def test_the_page_is_written_with_its_figures(save_run: Save, judged_rows: list[Any]) -> None:
    run = save_run(judged_rows)
    path = write_report(run, interactive=True)
    text = path.read_text()
    assert path == run.path / "report.html"
    assert text.count("data:image/svg+xml;base64,") == 1
    assert "Plotly.newPlot" in text
    assert '<script src="http' not in text


def test_a_run_of_ceilings_alone_has_a_report(save_run: Save, judged_rows: list[Any]) -> None:
    rows = [row for row in judged_rows if row.record == "ceiling"]
    text = render_report(save_run(rows), interactive=False)
    assert "No correct measurement." in text
