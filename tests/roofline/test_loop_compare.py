"""Comparing systems: what both share cancels, and the break-even price makes both cost the same."""

from __future__ import annotations

import pytest
from roofcast.roofline.loop import load_scenario, loop_cost
from roofcast.roofline.loop.compare import compare

FIRST = "qwen3-30b-a3b-grpo-math"


def test_a_system_against_itself() -> None:
    found = compare(FIRST, "gb300-nvl72", "gb300-nvl72")
    assert found.time_ratio.mid == found.usd_ratio.mid == 1
    assert found.break_even_usd_per_gpu_hour.mid == pytest.approx(found.price_usd_per_gpu_hour.mid)


def test_a_ratio_is_known_better_than_either_time() -> None:
    cost = loop_cost(FIRST, ["vera-rubin-nvl72", "gb300-nvl72"])
    rubin, gb300 = cost.step("vera-rubin-nvl72"), cost.step("gb300-nvl72")
    found = compare(FIRST, "vera-rubin-nvl72", "gb300-nvl72")
    assert found.time_ratio.mid == pytest.approx(rubin["time_mid_s"] / gb300["time_mid_s"])
    assert found.usd_ratio.mid == pytest.approx(rubin["usd_mid"] / gb300["usd_mid"])
    assert found.time_ratio.high / found.time_ratio.low < rubin["time_high_s"] / rubin["time_low_s"]


def test_at_the_break_even_price_both_cost_the_same() -> None:
    found = compare(FIRST, "vera-rubin-nvl72", "gb300-nvl72")
    price = f"{found.break_even_usd_per_gpu_hour.mid!r} USD/h"
    paid = {"vera-rubin-nvl72": {"low": price, "typical": price, "high": price}}
    scenario = load_scenario(FIRST, {"prices.gpu_per_hour": paid})
    assert compare(scenario, "vera-rubin-nvl72", "gb300-nvl72").usd_ratio.mid == pytest.approx(1.0)
