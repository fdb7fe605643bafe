"""Latency and bandwidth from message times."""

import numpy as np
import pytest
from roofcast.roofline.links import fit_link

SIZES = [2.0**k for k in range(10, 28, 2)]


def test_exact_times_give_their_terms_back() -> None:
    fit = fit_link(SIZES, [2e-6 + s / 40e9 for s in SIZES])
    assert fit.latency_s == pytest.approx(2e-6, rel=1e-6)
    assert fit.bytes_per_s == pytest.approx(40e9, rel=1e-6)
    assert fit.median_error < 1e-9
    assert fit.time_s(40e9) == pytest.approx(1 + 2e-6)


def test_noise_moves_them_little() -> None:
    rng = np.random.default_rng(0)
    fit = fit_link(SIZES, [(5e-5 + s / 3e9) * rng.lognormal(0, 0.05) for s in SIZES])
    assert fit.latency_s == pytest.approx(5e-5, rel=0.1)
    assert fit.bytes_per_s == pytest.approx(3e9, rel=0.1)
    assert 0.005 < fit.median_error < 0.1


def test_no_term_is_negative() -> None:
    fit = fit_link([1e3, 1e6], [1e-3, 0.5e-3])
    assert fit.latency_s > 0
    assert fit.bytes_per_s == np.inf


@pytest.mark.parametrize(("sizes", "times"), [([8], [1]), ([8, 8], [1, 1]), ([8, 16], [1]), ([8, 16], [1, 0])])
def test_too_little_is_refused(sizes: list[float], times: list[float]) -> None:
    with pytest.raises(ValueError, match=r"size|time"):
        fit_link(sizes, times)
