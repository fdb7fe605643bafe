"""Projections are kept with their run and come back whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from roofcast.profiler.schema import Measurement
from roofcast.profiler.store import Run, StoreError
from roofcast.roofline.projection_table import (
    NothingToProjectError,
    project_run,
    read_projections,
    write_projections,
)

Save = Callable[..., Run]


def test_round_trip(save_run: Save, judged_rows: list[Any]) -> None:
    run = save_run(judged_rows)
    written = write_projections(run)
    assert len(written) == 9
    assert [p.id for p in written] == [f"P{n}" for n in range(1, 10)]
    assert read_projections(run.path) == written


def test_the_csv_has_bands_basis_and_sources(save_run: Save, judged_rows: list[Any]) -> None:
    run = save_run(judged_rows)
    write_projections(run, ["b200-hgx"])
    frame = pd.read_csv(run.path / "projections.csv")
    assert (frame.time_low_s <= frame.time_mid_s).all()
    assert (frame.time_mid_s <= frame.time_high_s).all()
    assert set(frame.basis) == {"cpu_to_gpu"}
    assert frame.bound_by.notna().all()
    assert frame.sources.str.len().min() > 20


def test_ids_are_stable(save_run: Save, judged_rows: list[Any]) -> None:
    run = save_run(judged_rows)
    assert [p.label for p in project_run(run)] == [p.label for p in project_run(run)]


def test_a_refused_row_is_not_projected(save_run: Save, judged_rows: list[Any]) -> None:
    found = project_run(save_run(judged_rows))
    assert "user" not in {p.implementation for p in found}


def test_nothing_to_project_says_what_to_do(save_run: Save, measurement: Callable[..., Measurement]) -> None:
    with pytest.raises(NothingToProjectError, match="roofcast ceilings"):
        project_run(save_run([measurement()]))
    with pytest.raises(NothingToProjectError, match="roofcast bench"):
        project_run(save_run([measurement(status="incorrect")]))


def test_a_run_without_projections_has_none(save_run: Save, judged_rows: list[Any]) -> None:
    assert read_projections(save_run(judged_rows).path) == []


def test_a_spoilt_file_names_itself_and_the_remedy(save_run: Save, judged_rows: list[Any]) -> None:
    run = save_run(judged_rows)
    (run.path / "projections.parquet").write_text("not a table")
    with pytest.raises(StoreError, match=r"projections\.parquet.*roofcast project"):
        read_projections(run.path)
