"""Questions about a scenario: changes are checked, grids agree with single runs, plans fit, prices break even."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.roofline.loop import ScenarioError, load_scenario, loop_cost
from roofcast.roofline.loop.change import changed, field_value
from roofcast.roofline.loop.cost import make_context
from roofcast.roofline.loop.generate import rollout_memory
from roofcast.roofline.loop.learn import training_memory
from roofcast.roofline.loop.questions.break_even import break_even
from roofcast.roofline.loop.questions.claims import claims
from roofcast.roofline.loop.questions.plan import plan, read_deadline
from roofcast.roofline.loop.questions.sensitivity import sensitivity
from roofcast.roofline.loop.questions.sweep import MOST_POINTS, RESULTS, parse_axes, sweep
from roofcast.roofline.loop.questions.what_if import parse_change, possible, what_if
from roofcast.roofline.loop.system import System

MATH, AGENTIC = "qwen3-30b-a3b-grpo-math", "glm-4.5-air-agentic"


@pytest.mark.parametrize(
    ("field", "value", "read"),
    [
        ("cluster.gpus", 32, 32),
        ("lengths.response.sigma", 1, 1.0),
        ("reward.seconds", "2 min", 120.0),
        ("parameters.step.overhead_s", 3, 3.0),
        ("prices.capital.electricity.typical", "0.1 USD/kWh", 0.1),
        ("schedule", "sync", "sync"),
    ],
)
def test_a_field_is_changed_as_a_file_would_say_it(field: str, value: Any, read: Any) -> None:
    assert field_value(changed(load_scenario(MATH), {field: value}), field) == read


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cluster.gpu": 32}, ["cluster.gpu", "gpus"]),
        ({"cluster.gpus": -1}, ["cluster.gpus", "-1"]),
        ({"cluster.gpus": 7}, ["7", "expert"]),
        ({"reward.seconds": 30}, ["reward.seconds", "30 s"]),
        ({"lengths.response.mean": 1e6}, ["1000000.0", "98 %"]),
        ({"model": "Qwen3-9B"}, ["Qwen3-9B", "Qwen3-8B"]),
        ({"rollout.speculative.draft": 3}, ["speculative", "one value"]),
        ({"parameters.rollout.imbalanse": 1.0}, ["imbalanse", "rollout.imbalance"]),
        ({"prices.gpu_per_hour.b200-hgx": "3 USD"}, ["b200-hgx", "USD/h"]),
    ],
)
def test_an_impossible_change_names_field_value_and_remedy(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ScenarioError) as caught:
        changed(load_scenario(MATH), changes)
    for word in words:
        assert word in str(caught.value)


def test_what_if_agrees_with_single_runs_and_keeps_impossible_values_as_rows() -> None:
    rows = what_if(MATH, *parse_change("cluster.gpus=16,32,7"), ["gb300-nvl72"])
    assert [row["value"] for row in possible(rows)] == [16, 32]
    alone = loop_cost(changed(load_scenario(MATH), {"cluster.gpus": 32}), ["gb300-nvl72"]).step("gb300-nvl72")
    assert rows[1]["usd_mid"] == alone["usd_mid"]
    assert "does not" in rows[2]["problem"] or "more than" in rows[2]["problem"]
    with pytest.raises(ScenarioError, match="FIELD=VALUE"):
        parse_change("cluster.gpus")


AXES: dict[str, list[Any]] = {
    "cluster.gpus": [16, 24, 32],
    "algorithm.prompts": [32, 64],
    "lengths.response.sigma": [0.4, 0.9],
    "rollout.tensor": [1, 2],
    "reward.cpu": ["x86", "vera"],
    "parameters.train.moe_factor": [2.0, 3.0],
    "parameters.step.overhead_s": [5.0, 20.0],
    "prices.gpu_per_hour.gb300-nvl72": ["2 USD/h", "3 USD/h"],
    "prices.vcpu": ["0.01 USD/h", "0.1 USD/h"],
}


@pytest.fixture(scope="module")
def grid() -> Any:
    return sweep(MATH, AXES, ["gb300-nvl72"])


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_every_point_of_a_grid_is_what_a_single_run_says(grid: Any, data: st.DataObject) -> None:
    at = {field: data.draw(st.integers(0, len(values) - 1), label=field) for field, values in AXES.items()}
    point = {field: AXES[field][index] for field, index in at.items()}
    index = (0, *at.values())
    try:
        scenario = changed(load_scenario(MATH), point)
    except ScenarioError:
        assert np.isnan(grid.results["usd"][index])
        return
    step = loop_cost(scenario, ["gb300-nvl72"]).step("gb300-nvl72")
    for name in RESULTS:
        column = "time_mid_s" if name == "time_s" else f"{name}_mid"
        assert grid.results[name][index] == pytest.approx(step[column], rel=1e-9), name


def test_a_grid_of_a_million_points_has_a_row_for_each_and_finds_the_least() -> None:
    axes = parse_axes(
        [
            "cluster.gpus=16,32",
            "prices.vcpu=0.01..0.1..50 USD/h",
            "prices.memory=0.01..0.1..100 USD/h",
            "parameters.step.overhead_s=5..25..100",
        ]
    )
    found = sweep(MATH, axes, ["gb300-nvl72"])
    assert found.points == found.possible == 1_000_000
    best = found.best(1)[0]
    assert best["usd"] == found.results["usd"].min()
    assert (best["prices.vcpu"], best["parameters.step.overhead_s"]) == ("0.01 USD/h", 5)
    assert len(found.to_frame()) == 1_000_000


def test_schedules_of_a_split_cluster_can_be_an_axis() -> None:
    found = sweep(AGENTIC, {"schedule": ["sync", "one_step_off", "async"]}, ["gb300-nvl72"])
    for index, kind in enumerate(("sync", "one_step_off", "async")):
        step = loop_cost(changed(load_scenario(AGENTIC), {"schedule": kind}), ["gb300-nvl72"]).step("gb300-nvl72")
        assert found.results["time_s"][0, index] == pytest.approx(step["time_mid_s"], rel=1e-9)


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        (["cluster.gpus=1..2"], "1..2"),
        (["a.b=1..x..3"], "FROM..TO..COUNT"),
        (["cluster.gpus=1", "cluster.gpus=2"], "twice"),
    ],
)
def test_wrong_axes_are_one_error(texts: list[str], word: str) -> None:
    with pytest.raises(ScenarioError, match=word):
        sweep(MATH, parse_axes(texts), ["gb300-nvl72"])


def test_a_grid_that_is_too_large_is_refused_before_any_work() -> None:
    with pytest.raises(ScenarioError, match=f"{MOST_POINTS:,}"):
        sweep(MATH, {"cluster.gpus": [16], "prices.vcpu": ["1 USD/h"] * (MOST_POINTS + 1)}, ["gb300-nvl72"])


@pytest.mark.parametrize("name", [MATH, AGENTIC])
def test_a_plan_fits_is_no_dearer_than_the_scenario_and_is_what_it_costs(name: str) -> None:
    found = plan(name, "gb300-nvl72")
    assert found.best is not None
    assert found.smallest is not None
    assert found.cost is not None
    step = found.cost.step("gb300-nvl72")
    assert found.best.time_s == pytest.approx(step["time_mid_s"], rel=1e-9)
    assert found.best.usd == pytest.approx(step["usd_mid"], rel=1e-9)
    assert found.best.usd <= loop_cost(name, ["gb300-nvl72"]).step("gb300-nvl72")["usd_mid"]
    context = make_context(found.best.scenario, System.load("gb300-nvl72"), vary=False)
    for needed, usable in (rollout_memory(context), training_memory(context)):
        assert needed <= usable
    assert found.smallest.scenario.cluster.gpus == min(c.scenario.cluster.gpus for c in found.by_count)


def test_an_infeasible_plan_says_what_would_make_it_feasible() -> None:
    tight = plan(MATH, "gb300-nvl72", deadline_s=60.0)
    assert tight.best is None
    assert any("allow that long" in reason for reason in tight.reasons)
    small = plan(MATH, "gb300-nvl72", most_gpus=2)
    assert small.best is None
    assert not small.by_count
    fewest = int(re.findall(r"(\d+) are the fewest", small.reasons[-1])[0])
    assert plan(MATH, "gb300-nvl72", most_gpus=fewest).best is not None
    assert plan(MATH, "gb300-nvl72", most_gpus=fewest - 1).best is None
    with pytest.raises(ScenarioError, match="30 s"):
        read_deadline("30")


def test_at_the_break_even_price_both_cost_the_same() -> None:
    row = break_even(AGENTIC, "vera-rubin-nvl72", ["gb300-nvl72"])[0]
    price = row["break_even_usd_per_gpu_hour"]["mid"]
    priced = changed(load_scenario(AGENTIC), {"prices.gpu_per_hour.vera-rubin-nvl72": f"{price} USD/h"})
    cost = loop_cost(priced, ["vera-rubin-nvl72", "gb300-nvl72"])
    assert cost.step("vera-rubin-nvl72")["usd_mid"] == pytest.approx(cost.step("gb300-nvl72")["usd_mid"])
    asked = row["price_usd_per_gpu_hour"]["mid"]
    assert (row["usd_ratio"]["mid"] < 1) == (asked < price)


def test_sensitivity_is_sorted_and_an_input_at_its_end_gives_what_it_says() -> None:
    found = sensitivity(MATH, "gb300-nvl72", "time_s")
    swings = [abs(r["time_s_at_high"] - r["time_s_at_low"]) for r in found["inputs"]]
    assert swings == sorted(swings, reverse=True)
    assert all(r["source"] for r in found["inputs"])
    row = next(r for r in found["inputs"] if r["input"] == "rollout.iteration_overhead_s")
    fixed = changed(load_scenario(MATH), {"parameters.rollout.iteration_overhead_s": row["input_high"]})
    step = loop_cost(fixed, ["gb300-nvl72"]).step("gb300-nvl72")
    assert step["time_mid_s"] == pytest.approx(row["time_s_at_high"])


def test_six_claims_stand_with_their_conditions_and_two_have_no_cost_figure() -> None:
    rows = claims()
    assert len(rows) == 6
    for row, name in itertools.product(rows, ("claim", "conditions", "source", "assumed", "says")):
        assert row[name], (row["id"], name)
    assert [row["id"] for row in rows if "no cost figure" in row["says"]] == ["swe-bench", "parameters-550b"]
    for row in rows:
        if row["model"]:
            assert 0 < row["model"]["low"] <= row["model"]["mid"] <= row["model"]["high"]
            inside = row["model"]["low"] <= row["value"] <= row["model"]["high"]
            assert (row["verdict"] == "within the band") == inside
