"""Statistics, stop criteria, clock and warm-up."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofcast.profiler.clock import calls_per_sample, clock_facts, time_calls
from roofcast.profiler.settings import Settings, SettingsError
from roofcast.profiler.statistics import entropy_bits, median, median_interval
from roofcast.profiler.stop_criteria import NarrowInterval, NoiseSettled, SampleLimit, TimeBudget, first_reason
from roofcast.profiler.warm_up import warm_up
from scipy.stats import binom

SAMPLES = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60)


@given(SAMPLES)
def test_median_is_numpys_and_lies_in_its_interval(samples):
    interval = median_interval(samples)
    assert interval.median == median(samples) == pytest.approx(np.median(samples))
    assert min(samples) <= interval.low <= interval.median <= interval.high <= max(samples)


@pytest.mark.parametrize("n", [6, 7, 12, 50, 101, 1000])
def test_interval_covers_with_95_percent_and_no_narrower_one_does(n):
    interval = median_interval([float(i) for i in range(n)])
    low, high = int(interval.low), int(interval.high)
    assert low == n - 1 - high
    # The median lies between samples low and high if more than low and fewer than n - low samples are below it.
    assert binom.cdf(high, n, 0.5) - binom.cdf(low, n, 0.5) >= 0.95
    if high - low > 2:
        assert binom.cdf(high - 1, n, 0.5) - binom.cdf(low + 1, n, 0.5) < 0.95


def test_interval_covers_the_true_median_of_a_skewed_distribution():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(400):
        interval = median_interval(rng.lognormal(0, 1, 25).tolist())
        inside += interval.low <= 1.0 <= interval.high
    assert inside >= 370


def test_too_few_samples_give_their_range():
    assert median_interval([3.0, 1.0, 2.0]).low == 1.0
    with pytest.raises(ValueError, match="at least one sample"):
        median_interval([])


def test_entropy():
    assert entropy_bits([1.0] * 10, 0.01) == 0
    assert entropy_bits([1.0, 2.0, 3.0, 4.0], 0.01) == 2


def test_narrow_interval_stops_only_when_narrow():
    assert NarrowInterval(0.01).reason([1.0, 1.001] * 10, 0) != ""
    assert NarrowInterval(0.01).reason([1.0, 1.001] * 3, 0) == ""
    assert NarrowInterval(0.01).reason([1.0, 1.5] * 10, 0) == ""


def test_noise_settles_for_a_constant_distribution_and_not_for_a_drift():
    rng = np.random.default_rng(2)
    noise = (1 + 0.02 * rng.standard_normal(4000)).tolist()
    assert "noise stopped falling" in NoiseSettled().reason(noise, 0)
    drift = [1 + 0.5 * i / 400 for i in range(400)]
    assert NoiseSettled().reason(drift, 0) == ""
    assert NoiseSettled().reason(noise[:50], 0) == ""


def test_budget_limit_and_order():
    assert TimeBudget(1.0).reason([1.0] * 3, 1.5) == "time budget of 1 s ended"
    assert TimeBudget(1.0).reason([1.0] * 2, 1.5) == ""
    assert SampleLimit(5).reason([1.0] * 5, 0) == "limit of 5 samples reached"
    assert "limit" in first_reason((TimeBudget(9), SampleLimit(2)), [1.0] * 3, 0)


def test_users_criterion_is_asked_first():
    class AfterSeven:
        def reason(self, samples_s, elapsed_s):
            return "seven" if len(samples_s) >= 7 else ""

    criteria = Settings(criteria=(AfterSeven(),)).stop_criteria()
    assert first_reason(criteria, [1.0] * 7, 0) == "seven"
    assert "budget" in first_reason(criteria, [1.0] * 6, 99)


@pytest.mark.parametrize(
    "bad", [{"budget_s": 0}, {"target": -1}, {"threads": 0}, {"memory_limit_bytes": 0}, {"seed": -1}]
)
def test_bad_settings_are_named(bad):
    with pytest.raises(SettingsError, match=next(iter(bad))):
        Settings(**bad)


def test_clock():
    facts = clock_facts()
    assert 0 < facts.resolution_s < 1e-3
    assert 0 < facts.overhead_s < 1e-3
    assert facts.shortest_s >= 100 * facts.overhead_s * (1 - 1e-9)  # rounding
    calls = []
    assert time_calls([lambda: calls.append(1)] * 3) > 0
    assert len(calls) == 3


@given(st.floats(1e-9, 1.0), st.floats(1e-8, 1e-3))
def test_batches_are_just_long_enough(call_s, shortest_s):
    calls = calls_per_sample(call_s, shortest_s)
    assert calls >= 1
    assert calls * call_s >= shortest_s * (1 - 1e-9)
    assert calls == 1 or (calls - 1) * call_s < shortest_s


def test_warm_up_waits_for_a_stable_median():
    times = itertools.chain([1.0 / (i + 1) for i in range(40)], itertools.repeat(0.01))
    result = warm_up(lambda: next(times), limit_s=5.0)
    assert result.stable
    assert result.calls > 40
    assert result.call_s == 0.01


def test_warm_up_ends_at_its_limit():
    value = [1.0]

    def falling():
        time.sleep(0.002)
        value[0] *= 0.5
        return value[0]

    result = warm_up(falling, limit_s=0.01)
    assert not result.stable
    assert math.isfinite(result.call_s)
    assert warm_up(falling, limit_s=0.0).calls == 1
