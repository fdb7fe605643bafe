"""A projected number leads to a measured row and to cited sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from roofcast.profiler.store import Run
from roofcast.roofline.explain import UnknownRowError, explain
from roofcast.roofline.loop import loop_cost, write_loop
from roofcast.roofline.projection_table import write_projections

Save = Callable[..., Run]


@pytest.fixture
def run(save_run: Save, judged_rows: list[Any]) -> Run:
    made = save_run(judged_rows)
    write_projections(made, ["b200-hgx", "vera-rubin-nvl72"])
    return made


def test_the_chain_ends_at_a_measured_row_and_a_cited_source(run: Run) -> None:
    chain = explain(run, "P2")
    kinds = [step.kind for step in chain.steps]
    assert kinds == ["measurement", "roofs", "ceilings", "formula", "band", "sources"]
    text = "\n".join(chain.lines())
    assert "measurements.jsonl" in text
    assert "attention.decode|W()|numba|cpu|cold" in text
    assert "19.2 TB/s (19.2 T to 22 T)" in text
    assert "https://" in text
    assert json.loads(json.dumps(chain.as_dict()))["row"] == "P2"


def test_a_label_is_an_id_where_only_one_fits(run: Run) -> None:
    assert explain(run, "moe.routing@b200-hgx").row == "P3"


def test_a_label_of_several_rows_lists_their_ids(save_run: Save, judged_rows: list[Any]) -> None:
    run = save_run(judged_rows)
    write_projections(run, ["b200-hgx"], fastest=False)
    with pytest.raises(UnknownRowError, match="P1, P2"):
        explain(run, "attention.decode@b200-hgx")


def test_a_measured_row_explains_its_roofs(run: Run) -> None:
    chain = explain(run, "sampling.logprob|W()|numba|cpu|cold")
    assert [step.kind for step in chain.steps] == ["measurement", "roofs"]
    assert "exp.fp32" in chain.steps[1].figures[0][0]


def test_an_unknown_row_names_near_ones(run: Run) -> None:
    with pytest.raises(UnknownRowError, match="did you mean"):
        explain(run, "P22")


def test_without_projections_the_remedy_is_named(save_run: Save, judged_rows: list[Any]) -> None:
    with pytest.raises(UnknownRowError, match="roofcast project"):
        explain(save_run(judged_rows), "P1")


def test_a_row_of_the_loop_leads_to_its_projections(run: Run) -> None:
    write_loop(run.path, loop_cost("qwen3-30b-a3b-grpo-math", ["b200-hgx"], run=run.path))
    chain = explain(run, "L1")
    kinds = [step.kind for step in chain.steps]
    assert kinds[0] == "terms"
    assert "projection" in kinds
    assert "measurement" in kinds
    assert "USD" in chain.title
