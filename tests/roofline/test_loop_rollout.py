"""Lengths, and decode over the survival curve against a simulation that draws every length."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from roofcast.roofline.loop.lengths import Fixed, LogNormal, Quantiles
from roofcast.roofline.loop.rollout import decode_curve, decode_time


def _lognormal(mean: float = 3000.0, sigma: float = 0.8, most: float = 16384.0) -> LogNormal:
    return LogNormal.model_validate({"mean": mean, "sigma": sigma, "max": most})


def _draw(lengths: LogNormal, count: int, seed: int) -> np.ndarray:
    z = np.random.default_rng(seed).standard_normal(count)
    return np.minimum(np.exp(lengths.mu + lengths.sigma * z), lengths.max)


def _simulate(lengths: np.ndarray, cap: int, base: float, each: float) -> tuple[float, float]:
    """Iterations and seconds of continuous batching with the given lengths, at base + each x batch per iteration."""
    waiting, running = list(lengths), []
    now = seconds = 0.0
    while waiting or running:
        while waiting and len(running) < cap:
            heapq.heappush(running, now + waiting.pop())
        first = heapq.heappop(running)
        seconds += (first - now) * (base + each * (len(running) + 1))
        now = first
    return now, seconds


@pytest.mark.parametrize(("sequences", "cap"), [(64, 1000), (64, 48), (256, 32), (1024, 128)])
def test_the_curve_agrees_with_a_simulation(sequences: int, cap: int) -> None:
    lengths, replicas, repeats = _lognormal(), 4, 24
    slowest = []
    for repeat in range(repeats):
        made = [_simulate(_draw(lengths, sequences, 100 * repeat + r), cap, 5.0, 0.1) for r in range(replicas)]
        slowest.append(np.max(made, axis=0))
    iterations, seconds = np.mean(slowest, axis=0)
    curve = decode_curve(lengths, 0.0, float(sequences), float(cap), step_sequences=float(sequences * replicas))
    # Between no queue and a long one the ages of the running sequences are interpolated, which costs some per cent.
    assert curve.iterations.item() == pytest.approx(iterations, rel=0.07)
    assert decode_time(curve, lambda batch, context: 5.0 + 0.1 * batch).item() == pytest.approx(seconds, rel=0.05)


def test_contexts_grow_from_the_prompt_to_the_longest() -> None:
    curve = decode_curve(_lognormal(), 100.0, 64.0, 1000.0)
    assert curve.context[0, 1] < 200
    assert 16384 < curve.context[0, -1] < 16484


def test_equal_lengths_need_exactly_that_many_iterations() -> None:
    curve = decode_curve(Fixed(tokens=512), 0.0, 32.0, 32.0)
    assert curve.iterations.item() == pytest.approx(512)
    assert curve.tokens.item() == pytest.approx(32 * 512)


@settings(deadline=None, max_examples=50)
@given(
    mean=st.floats(100, 5000),
    sigma=st.floats(0.1, 1.5),
    sequences=st.floats(1, 4096),
    cap=st.floats(1, 512),
)
def test_all_tokens_are_generated_once(mean: float, sigma: float, sequences: float, cap: float) -> None:
    lengths = _lognormal(mean, sigma)
    curve = decode_curve(lengths, 10.0, sequences, cap)
    # A batch is at least one sequence while any replica still runs, so a few tokens more are counted in the tail.
    assert curve.tokens.item() >= 0.999 * sequences * lengths.mean
    assert np.all(curve.batch <= max(min(sequences, cap), 1.0) * 1.000001)
    assert np.all(curve.weight >= 0)


@settings(deadline=None, max_examples=40)
@given(mean=st.floats(50, 14000), sigma=st.floats(0.1, 2.0))
def test_the_mean_is_that_of_the_cut_lengths(mean: float, sigma: float) -> None:
    assert _lognormal(mean, sigma).mean == pytest.approx(mean, rel=0.02)


def test_survival_agrees_with_drawn_lengths() -> None:
    lengths = _lognormal()
    drawn = _draw(lengths, 200_000, 7)
    for t in (500.0, 3000.0, 12000.0):
        assert lengths.survival(np.array([t])).item() == pytest.approx(float(np.mean(drawn > t)), abs=0.005)


def test_measured_lengths_keep_their_mean() -> None:
    lengths = Quantiles(points={0.5: 1000, 0.9: 4000, 1.0: 8000})
    assert lengths.mean == pytest.approx(0.5 * 500 + 0.4 * 2500 + 0.1 * 6000, rel=0.01)


@pytest.mark.parametrize("points", [{0.5: 100}, {0.5: 200, 1.0: 100}, {0.5: 100, 0.9: 200}])
def test_impossible_quantiles_are_refused(points: dict[float, float]) -> None:
    with pytest.raises(ValidationError, match="points"):
        Quantiles(points=points)


def test_a_mean_at_the_cut_is_refused() -> None:
    with pytest.raises(ValidationError, match="fixed"):
        _lognormal(mean=16300)


def test_arrays_of_points_give_the_same_as_one_by_one() -> None:
    lengths, sequences, caps = _lognormal(), np.array([16.0, 64.0, 512.0]), np.array([64.0, 32.0, 100.0])
    together = decode_curve(lengths, 50.0, sequences, caps).iterations[:, 0]
    alone = [decode_curve(lengths, 50.0, n, c).iterations.item() for n, c in zip(sequences, caps, strict=True)]
    assert together == pytest.approx(alone)
