"""The float64 definition of sampling.top_k_top_p, and the comparison with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...contract import Arrays, Check, Inputs
from ...precision import compare_floats, tolerance, widen
from ..philox import random_words

Floats = npt.NDArray[np.float64]


def uniform_bits(seed: Any, offset: Any) -> npt.NDArray[np.uint64]:
    """Return the 64-bit uniform number of each row: the first two words of Philox, the first on top."""
    words = random_words(seed, offset).astype(np.uint64)
    return (words[..., 0] << np.uint64(32)) | words[..., 1]


def adjusted_logits(arrays: Arrays, row: int) -> npt.NDArray[np.float32]:
    """Return a row's logits after bias and penalties, each step rounded to fp32."""
    x = widen(arrays["logits"][row]).copy()
    token = arrays["bias_token"][row]
    listed = token >= 0
    at = token[listed]
    x[at] = (x[at].astype(np.float64) + arrays["bias"][row][listed]).astype(np.float32)
    token = arrays["seen_token"][row]
    listed = token >= 0
    at, count = token[listed], arrays["seen_count"][row][listed].astype(np.float64)
    factor, presence, frequency = (float(arrays[name][row]) for name in ("repetition", "presence", "frequency"))
    value = x[at].astype(np.float64)
    value = np.where(value > 0, value / factor, value * factor)
    x[at] = (value - frequency * count - presence * (count > 0)).astype(np.float32)
    return x


@dataclass(frozen=True)
class Row:
    """What one row defines: its logits in float64, the weights ``exp((x - max) / T)`` and the threshold."""

    x: Floats
    weight: Floats
    threshold: float

    @property
    def kept(self) -> npt.NDArray[np.bool_]:
        """Which tokens stay."""
        return (self.x >= self.threshold) & (self.x > -np.inf)


def row_distribution(arrays: Arrays, row: int, top_p_factor: float = 1.0) -> Row | None:
    """Apply the filters to a row; None if it defines no distribution or has temperature 0."""
    x = adjusted_logits(arrays, row).astype(np.float64)
    temperature = float(arrays["temperature"][row])
    if temperature == 0.0 or np.isnan(x).any() or np.isposinf(x).any() or np.isneginf(x).all():
        return None
    weight = np.exp((x - x.max()) / temperature)
    min_p, top_k = float(arrays["min_p"][row]), int(arrays["top_k"][row])
    threshold = x.max() + temperature * np.log(min_p) if min_p > 0 else -np.inf
    if 0 < top_k < x.size:
        threshold = max(threshold, np.partition(x, x.size - top_k)[x.size - top_k])
    top_p = float(arrays["top_p"][row])
    if top_p < 1.0:
        kept = x >= threshold
        order = np.argsort(-x[kept], kind="stable")
        value, mass = x[kept][order], np.cumsum(weight[kept][order])
        # Of equal logits the first decides: what is strictly more probable stands before it.
        first = np.searchsorted(-value, -value, side="left")
        before = np.where(first > 0, mass[first - 1], 0.0)
        stays = before < min(top_p * top_p_factor, 1.0) * mass[-1]
        stays[0] = True
        threshold = value[stays][-1]
    return Row(x, weight, float(threshold))


def reference(inputs: Inputs) -> Arrays:
    """Compute token, logprob and number of kept tokens in float64, row by row."""
    arrays = inputs.arrays
    rows = arrays["logits"].shape[0]
    token, logprob, kept = np.full(rows, -1, np.int32), np.full(rows, np.nan), np.zeros(rows, np.int32)
    uniform = uniform_bits(arrays["seed"], arrays["offset"]).astype(np.float64) * 2.0**-64
    for i in range(rows):
        row = row_distribution(arrays, i)
        if row is not None:
            cumulative = np.cumsum(np.where(row.kept, row.weight, 0.0))
            token[i] = np.searchsorted(cumulative, min(uniform[i], 1 - 2**-53) * cumulative[-1], side="right")
            logprob[i] = np.log(row.weight[token[i]] / cumulative[-1])
            kept[i] = row.kept.sum()
        elif arrays["temperature"][i] == 0.0:
            x = adjusted_logits(arrays, i)
            if not (np.isnan(x).any() or np.isposinf(x).any() or np.isneginf(x).all()):
                token[i], logprob[i], kept[i] = np.argmax(x), 0.0, 1
    return {"token": token, "logprob": logprob, "kept": kept}


def _fault(inputs: Inputs, i: int, token: int, kept: int, u: float, relative: float) -> str:
    """Say what is wrong with a row whose token or number of kept tokens differs, or return an empty text."""
    fewest, most = (row_distribution(inputs.arrays, i, factor) for factor in (1 - relative, 1 + relative))
    if fewest is None or most is None:
        return f"token {token} and {kept} kept where the row defines another outcome"
    if not fewest.kept.sum() <= kept <= most.kept.sum():
        return f"{kept} tokens kept, expected {fewest.kept.sum()} to {most.kept.sum()}"
    if not (0 <= token < most.x.size and most.kept[token]):
        return f"token {token} is not among those kept"
    cumulative = np.cumsum(np.where(most.kept, most.weight, 0.0))
    before = (cumulative[token] - most.weight[token]) / cumulative[-1]
    if not before - relative <= u <= cumulative[token] / cumulative[-1] + relative:
        return f"token {token} is not where the uniform number {u:.9g} falls"
    return ""


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Require the token and the number of kept tokens that the definition gives.

    They may differ where ``top_p`` or the uniform number lies within the rounding of an fp32 sum over the vocabulary of
    a boundary. The logprob is compared where token and kept set are equal.
    """
    for name in expected:
        if name not in output:
            return Check(False, np.inf, f"output {name!r} is missing")
        if np.shape(output[name]) != expected[name].shape:
            return Check(False, np.inf, f"{name}: shape {np.shape(output[name])}, expected {expected[name].shape}")
    token, kept = np.asarray(output["token"]), np.asarray(output["kept"])
    relative = tolerance("fp32", inputs.arrays["logits"].shape[1])
    same = (token == expected["token"]) & (kept == expected["kept"])
    uniform = uniform_bits(inputs.arrays["seed"], inputs.arrays["offset"]).astype(np.float64) * 2.0**-64
    for i in np.flatnonzero(~same):
        if fault := _fault(inputs, int(i), int(token[i]), int(kept[i]), float(uniform[i]), relative):
            return Check(False, np.inf, f"row {i}: {fault}")
    got = {"logprob": np.asarray(output["logprob"])[same]}
    return compare_floats(got, {"logprob": expected["logprob"][same]}, relative, {"logprob": 1.0})
