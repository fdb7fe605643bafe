"""Draws follow their distribution: chi-square and Kolmogorov-Smirnov over a million draws with fixed seeds."""

from typing import Any

import numpy as np
import scipy.stats
from roofcast.kernels import get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.sampling.top_k_top_p.operator import TopKTopP
from roofcast.kernels.sampling.top_k_top_p.reference import row_distribution

DRAWS = 1_000_000
SETTINGS: list[dict[str, Any]] = [
    {"top_k": 0, "top_p": 1.0},
    {"top_k": 0, "top_p": 1.0, "temperature": 0.5},
    {"top_k": 7, "top_p": 0.9, "temperature": 1.7},
    {"top_k": 0, "top_p": 0.8, "min_p": 0.05},
]
# Two tests per setting at a joint level of 1 %.
LEVEL = 0.01 / (2 * len(SETTINGS))


def test_draws_follow_the_distribution() -> None:
    row = np.random.default_rng(1).normal(0, 1.5, 19).astype(np.float32)
    operator, numba = get_operator("sampling.top_k_top_p"), get_implementation("sampling.top_k_top_p", "numba")
    for number, fields in enumerate(SETTINGS):
        small = operator.make_inputs(TopKTopP(1, row.size, **fields), 0)
        arrays = {name: np.repeat(array, DRAWS, axis=0) for name, array in small.arrays.items()}
        arrays["logits"] = np.repeat(row[None], DRAWS, axis=0)
        arrays["seed"][:], arrays["offset"][:] = 1234 + number, np.arange(DRAWS)
        prepared = numba.prepare(Inputs(TopKTopP(DRAWS, row.size, **fields), 0, arrays), "cpu")
        prepared.run()
        token = prepared.output()["token"]
        exact = row_distribution(arrays, 0)
        assert exact is not None
        p = np.where(exact.kept, exact.weight, 0.0) / exact.weight[exact.kept].sum()
        count = np.bincount(token, minlength=row.size)
        assert count[p == 0].sum() == 0
        assert scipy.stats.chisquare(count[p > 0], DRAWS * p[p > 0]).pvalue > LEVEL, fields
        # For a discrete distribution the Kolmogorov distribution bounds the statistic from above.
        distance = np.abs(np.cumsum(count) / DRAWS - np.cumsum(p)).max()
        assert scipy.stats.kstwobign.sf(distance * np.sqrt(DRAWS)) > LEVEL, fields
        # Neighbouring offsets are independent: the table of pairs is the product of its margins.
        pairs = np.zeros((row.size, row.size))
        np.add.at(pairs, (token[:-1:2], token[1::2]), 1)
        used = p * DRAWS > 3000
        assert scipy.stats.chi2_contingency(pairs[np.ix_(used, used)])[1] > LEVEL, fields
