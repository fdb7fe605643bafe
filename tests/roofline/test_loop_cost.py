"""The loop cost: bands in order, phases that add up, money counted once, and what a run's projections change."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.hwprofiles import UnknownProfileError
from roofcast.profiler.store import Run, StoreError
from roofcast.roofline.loop import LoopCost, Scenario, load_scenario, loop_cost, read_loop, scenario_names, write_loop
from roofcast.roofline.loop.carried import factors_of
from roofcast.roofline.loop.cost import COLUMNS, make_context, run_step
from roofcast.roofline.loop.inputs import Input, Inputs, parameter_inputs
from roofcast.roofline.loop.money import PriceError
from roofcast.roofline.loop.system import System, UnsuitableSystemError
from roofcast.roofline.loop.workloads import Pass, Shards, operations, touched_experts, weight_bytes
from roofcast.roofline.projection import specification_only
from roofcast.roofline.projection_table import write_projections

FIRST = "qwen3-30b-a3b-grpo-math"
SYSTEMS = ("b200-hgx", "gb300-nvl72", "vera-rubin-nvl72")
BANDS = ("time_{}_s", "gpu_hours_{}", "kwh_{}", "usd_{}", "usd_per_million_tokens_{}")


@pytest.fixture(scope="module")
def first() -> LoopCost:
    return loop_cost(FIRST)


def _mid(scenario: Scenario, system: str = "b200-hgx") -> dict[str, float]:
    """Middle seconds of each phase and of the step."""
    phases, step = run_step(make_context(scenario, System.load(system), vary=False))
    return {name: p.seconds.item() for name, p in phases.items()} | {"step": step.seconds.item()}


def _with(**overrides: Any) -> Scenario:
    return load_scenario(FIRST, {name.replace("__", "."): value for name, value in overrides.items()})


@pytest.mark.parametrize("name", scenario_names())
def test_every_figure_is_ordered_and_has_a_basis(name: str) -> None:
    cost = loop_cost(name)
    assert {row["system"] for row in cost.rows} | set(cost.problems) == set(cost.scenario.systems)
    assert cost.rows
    for row in cost.rows:
        assert set(row) == set(COLUMNS)
        assert row["basis"]
        assert row["bound_by"]
        for stem in BANDS:
            low, mid, high = (row[stem.format(end)] for end in ("low", "mid", "high"))
            assert 0 <= low <= mid <= high < np.inf
        for term in row["provenance"]["terms"]:
            assert term["time_low_s"] <= term["time_mid_s"] <= term["time_high_s"]
            assert term["basis"]
    json.dumps(cost.as_dict(), allow_nan=False)


def test_the_phases_of_a_step_add_up(first: LoopCost) -> None:
    for system in SYSTEMS:
        parts = [row for row in first.rows if row["system"] == system and row["phase"] != "step"]
        whole = first.step(system)
        assert [row["phase"] for row in parts] == ["rollout", "reward", "logprob", "train", "weight_sync", "overhead"]
        for column in ("time_mid_s", "gpu_hours_mid", "kwh_mid", "usd_mid", "vcpu_hours"):
            assert sum(row[column] for row in parts) == pytest.approx(whole[column])
        assert whole["gpu_hours_mid"] == pytest.approx(whole["time_mid_s"] * 16 / 3600)
        assert sum(row["share"] for row in parts) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["deepseek-v3-grpo-reasoning", "glm-4.5-air-agentic"])
def test_gpu_hours_of_a_split_cluster_add_up(name: str) -> None:
    cost = loop_cost(name, ["gb300-nvl72"])
    parts = [row for row in cost.rows if row["phase"] != "step"]
    assert sum(row["gpu_hours_mid"] for row in parts) == pytest.approx(cost.step("gb300-nvl72")["gpu_hours_mid"])


def test_the_terms_of_a_phase_add_up(first: LoopCost) -> None:
    for row in first.rows:
        if row["phase"] in ("rollout", "logprob", "train", "weight_sync"):
            total = sum(term["time_mid_s"] for term in row["provenance"]["terms"])
            assert total == pytest.approx(row["time_mid_s"])


def test_an_all_in_price_gets_no_power_on_top(first: LoopCost) -> None:
    row = first.step("b200-hgx")
    price = row["provenance"]["price"]["mid"]
    sandboxes = row["vcpu_hours"] * 0.0504 + row["gib_hours"] * 0.0162
    assert row["usd_mid"] == pytest.approx(row["gpu_hours_mid"] * price + sandboxes)
    assert row["kwh_mid"] == pytest.approx(row["gpu_hours_mid"] * row["provenance"]["power"]["mid"] / 1000)


def test_a_price_moves_dollars_alone() -> None:
    dear = {"b200-hgx": {"low": "4 USD/h", "typical": "6 USD/h", "high": "9 USD/h"}}
    cheap, costly = loop_cost(FIRST, ["b200-hgx"]), loop_cost(_with(prices__gpu_per_hour=dear), ["b200-hgx"])
    a, b = cheap.step("b200-hgx"), costly.step("b200-hgx")
    assert a["time_mid_s"] == b["time_mid_s"]
    assert b["usd_mid"] > 2 * a["usd_mid"]
    assert b["usd_high"] / b["usd_mid"] > a["usd_high"] / a["usd_mid"]


def test_a_price_that_nobody_states_is_an_error() -> None:
    with pytest.raises(PriceError, match="tco_neocloud"):
        loop_cost(_with(prices__gpu="rental_3y"), ["vera-rubin-nvl72"])


def test_unknown_system_names_the_nearest() -> None:
    with pytest.raises(UnknownProfileError, match="gb300"):
        loop_cost(FIRST, ["gb300-nv72"])


def test_a_system_without_gpu_is_an_error() -> None:
    with pytest.raises(UnsuitableSystemError, match="vera has no GPU"):
        loop_cost(FIRST, ["vera"])


def test_a_narrow_precision_runs_on_wider_units_where_there_are_no_own() -> None:
    narrow = _with(precision__rollout="nvfp4", precision__train="nvfp4")
    assert _mid(narrow, "h100-sxm")["train"] > 2 * _mid(narrow, "b200-hgx")["train"]


def test_what_does_not_fit_says_why() -> None:
    cost = loop_cost("nemotron-3-ultra-swe", ["h100-sxm"])
    assert cost.rows == []
    assert "raise rollout.tensor" in cost.problems["h100-sxm"]
    with pytest.raises(LookupError, match=r"rollout\.tensor"):
        cost.step("h100-sxm")


def test_longer_responses_and_fewer_gpus_take_longer() -> None:
    plain = _mid(_with())
    assert _mid(_with(lengths__response__mean=8000))["step"] > 1.1 * plain["step"]
    fewer = _mid(_with(cluster__gpus=8))
    assert fewer["train"] > 1.9 * plain["train"]
    # Half the replicas have twice the batch, which costs less than twice the time.
    assert plain["rollout"] < fewer["rollout"] < 2 * plain["rollout"]


def test_a_later_generation_is_faster() -> None:
    seconds = [_mid(_with(), system)["step"] for system in ("h100-sxm", "b200-hgx", "vera-rubin-nvl72")]
    assert seconds == sorted(seconds, reverse=True)


def test_running_beside_each_other_beats_one_after_the_other() -> None:
    split = {"cluster__placement": "split", "cluster__rollout_gpus": 8, "weight_sync": "peer_to_peer"}
    parts = _mid(_with(**split))
    ahead = _mid(_with(**split, schedule="one_step_off"))
    free = _mid(_with(**split, schedule="async"))
    assert free["step"] < ahead["step"] < parts["step"]
    # Without a tail generation is faster, too.
    assert free["rollout"] < ahead["rollout"]


def test_speculative_decoding_pays_only_if_tokens_are_accepted() -> None:
    plain = _mid(_with())["rollout"]
    good = _mid(_with(rollout__speculative={"draft": 3, "accepted": 2.5}))["rollout"]
    bad = _mid(_with(rollout__speculative={"draft": 3, "accepted": 1.0}))["rollout"]
    assert good < plain < bad


def test_touched_experts() -> None:
    moe = load_scenario(FIRST).model.moe
    assert moe is not None
    assert touched_experts(moe, 1.0) == pytest.approx(moe.top_k)
    assert touched_experts(moe, 1e6) == pytest.approx(moe.experts)


@pytest.mark.parametrize("shards", [Shards(), Shards(tensor=4), Shards(tensor=2, expert=8), Shards(expert=8)])
def test_the_work_of_all_gpus_is_the_work_of_the_model(shards: Shards) -> None:
    model = load_scenario(FIRST).model
    work = Pass(tokens=4096.0, context=0.0, sequences=1.0, mode="prefill", logits=4096.0)
    per_gpu = sum(
        op.count * op.work.flops.get("matrix.bf16", 0.0) for op in operations(model, work, shards)
    )  # of one tensor group
    weights = model.active_parameters - model.vocab * model.hidden
    assert per_gpu * shards.tensor == pytest.approx(2 * 4096 * weights, rel=0.01)


def test_weights_are_split_over_the_gpus() -> None:
    model = load_scenario(FIRST).model
    assert weight_bytes(model, Shards(), "bf16") == pytest.approx(2 * model.parameters)
    assert weight_bytes(model, Shards(tensor=4), "bf16") == pytest.approx(model.parameters / 2)
    spread = weight_bytes(model, Shards(expert=8), "bf16")
    assert model.parameters / 4 < spread < model.parameters


def test_work_becomes_a_cost_that_can_be_projected() -> None:
    model = load_scenario(FIRST).model
    work = Pass(tokens=64.0, context=2000.0, sequences=64.0, mode="decode", logits=64.0)
    for op in operations(model, work, Shards()):
        found = specification_only(op.work.cost(), "b200-hgx", operator=op.operator)
        assert found.time_mid_s > 0


def test_a_run_changes_the_operators_that_it_measured(
    save_run: Callable[..., Run], judged_rows: list[Any], first: LoopCost
) -> None:
    run = save_run(judged_rows)
    projections = write_projections(run, SYSTEMS)
    cost = loop_cost(FIRST, SYSTEMS, run.path)
    terms = {t["name"]: t for t in cost.rows[0]["provenance"]["terms"]}
    plain = {t["name"]: t for t in first.rows[0]["provenance"]["terms"]}
    assert terms["attention.decode"]["basis"] == "cpu_to_gpu"
    assert terms["attention.decode"]["reference"].startswith("projection P")
    assert terms["attention.decode"]["time_mid_s"] != plain["attention.decode"]["time_mid_s"]
    assert terms["moe.expert_gemm"] == plain["moe.expert_gemm"]
    assert loop_cost(FIRST, SYSTEMS, projections).rows == cost.rows
    write_loop(run.path, cost)
    assert read_loop(run.path) == cost.rows


def test_a_projection_twice_as_slow_doubles_its_operator() -> None:
    system = System.load("b200-hgx")
    model = load_scenario(FIRST).model
    op = next(
        o for o in operations(model, Pass(64.0, 4000.0, 64.0, "decode"), Shards()) if o.operator == "attention.decode"
    )
    plain = specification_only(dataclasses.replace(op.work.cost(), launches=1), "b200-hgx", operator=op.operator)
    slow = dataclasses.replace(
        plain,
        source_key="k",
        basis="next_generation",
        time_low_s=1.5 * plain.time_mid_s,
        time_mid_s=2 * plain.time_mid_s,
        time_high_s=3 * plain.time_mid_s,
    )
    factor = factors_of([slow], system)["attention.decode"]
    assert (factor.low, factor.mid, factor.high) == pytest.approx((1.5, 2.0, 3.0))
    assert factors_of([slow], System.load("gb300-nvl72")) == {}


def test_a_folder_that_is_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        loop_cost(FIRST, ["b200-hgx"], tmp_path)


def test_an_unwritable_folder_is_an_error(tmp_path: Path, first: LoopCost) -> None:
    with pytest.raises(StoreError, match="cannot write"):
        write_loop(tmp_path / "missing", first)


def test_files_hold_one_row_per_phase_and_system(tmp_path: Path, first: LoopCost) -> None:
    import pandas as pd

    write_loop(tmp_path, first)
    table = pd.read_csv(tmp_path / "loop.csv")
    assert len(table) == 21
    assert {"time_low_s", "time_mid_s", "time_high_s", "usd_low", "usd_mid", "usd_high", "basis", "bound_by"} <= set(
        table
    )
    assert read_loop(tmp_path) == first.rows


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.floats(0.1, 1), st.floats(1, 10)), min_size=1, max_size=6))
def test_independent_inputs_add_as_root_sum_of_squares(spans: list[tuple[float, float]]) -> None:
    inputs = Inputs(Input(f"x{i}", low, 1.0, high, "1", "test") for i, (low, high) in enumerate(spans))
    product = np.ones((inputs.variants, 1))
    for i in range(len(spans)):
        product = product * inputs(f"x{i}")
    band = inputs.band(product)
    assert band.mid == 1.0
    assert np.log(band.high) == pytest.approx(np.sqrt(sum(np.log(h) ** 2 for _, h in spans)), abs=1e-9)
    assert np.log(band.low) == pytest.approx(-np.sqrt(sum(np.log(low) ** 2 for low, _ in spans)), abs=1e-9)


def test_an_input_moves_everything_that_shares_it_together() -> None:
    inputs = Inputs([Input("x", 0.5, 1.0, 2.0, "1", "test")])
    assert inputs.band(inputs("x") + inputs("x")) == inputs.band(2 * inputs("x"))


def test_sensitivity_names_the_widest_first(first: LoopCost) -> None:
    rows = first.sensitivity["b200-hgx"]["time_s"]
    swings = [abs(row["raised"] - row["lowered"]) for row in rows]
    assert swings == sorted(swings, reverse=True)
    assert {"model.residual", "rollout.iteration_overhead_s"} <= {row["input"] for row in rows[:6]}


def test_every_parameter_has_source_unit_and_range() -> None:
    for item in parameter_inputs():
        assert item.source
        assert item.unit
        assert item.origin in ("calibrated", "published", "assumed")
        assert item.note


def test_a_scenario_can_fix_a_parameter() -> None:
    plain, slow = _with(), _with(parameters={"rollout.iteration_overhead_s": 0.05})
    assert _mid(slow)["rollout"] > 1.5 * _mid(plain)["rollout"]
