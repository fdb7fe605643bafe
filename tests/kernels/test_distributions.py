"""Expert skew: the logits drawn, the probability of being chosen, and the experts touched."""

import itertools
from typing import Any

import numpy as np
import pytest
from roofcast.kernels import WorkloadError
from roofcast.kernels.distributions import HOT_SHARE, draw_logits, expected_touched, inclusion, popularity

SKEWS = [("uniform", None), ("zipf", 0.5), ("zipf", 1.5), ("hot", 1), ("hot", 4)]


@pytest.mark.parametrize(("skew", "parameter"), SKEWS)
def test_popularity_sums_to_one_and_falls(skew: str, parameter: Any) -> None:
    p = popularity(37, skew, parameter)
    assert p.sum() == pytest.approx(1.0)
    assert np.all(np.diff(p) <= 0)


def test_popularity_by_hand() -> None:
    np.testing.assert_allclose(popularity(3, "zipf", 1), np.array([6, 3, 2]) / 11)
    assert popularity(10, "hot", 4)[:4].sum() == pytest.approx(HOT_SHARE)
    np.testing.assert_allclose(popularity(4, "hot", 4), 0.25)
    with pytest.raises(WorkloadError, match=r"^skew_parameter = 0"):
        popularity(4, "zipf", 0)


@pytest.mark.parametrize(("skew", "parameter"), SKEWS)
def test_the_largest_logit_follows_popularity(skew: str, parameter: Any) -> None:
    p = popularity(8, skew, parameter)
    logits = draw_logits(np.random.default_rng(4), 40_000, p)
    shares = np.sort(np.bincount(logits.argmax(1), minlength=8) / 40_000)[::-1]
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(shares, p, atol=0.011)


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_inclusion_against_enumeration(top_k: int) -> None:
    p = popularity(5, "zipf", 1.3)
    want = np.zeros(5)
    for drawn in itertools.permutations(range(5), top_k):
        chance, left = 1.0, 1.0
        for e in drawn:
            chance, left = chance * p[e] / left, left - p[e]
        want[list(drawn)] += chance
    np.testing.assert_allclose(inclusion(p, top_k), want, rtol=2e-3)
    assert inclusion(p, 5).tolist() == [1.0] * 5


@pytest.mark.parametrize(("skew", "parameter"), SKEWS)
def test_expected_touched_against_drawn_tokens(skew: str, parameter: Any) -> None:
    p = popularity(64, skew, parameter)
    logits = draw_logits(np.random.default_rng(1), 6400, p)
    chosen = np.argsort(-logits, axis=1)[:, :4].reshape(400, -1)
    touched = np.mean([np.unique(row).size for row in chosen])
    assert expected_touched(16, 64, 4, skew, parameter) == pytest.approx(touched, rel=0.015)


def test_expected_touched_at_its_ends() -> None:
    assert expected_touched(1, 128, 8, "zipf") == pytest.approx(8.0)
    assert expected_touched(10**7, 128, 8, "hot") == pytest.approx(128.0)
    assert expected_touched(16, 128, 8, "uniform") == pytest.approx(128 * (1 - (1 - 1 / 16) ** 16))
