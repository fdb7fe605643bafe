"""Seconds that the work of many rows needs on each resource of a device, all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .device import L2_EDGES, Speeds

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]

RESOURCES = ("matrix", "memory", "exp", "vector", "link")
# A row without any work on a resource still has a logarithm.
_LEAST = 1e-12


def terms(rows: pd.DataFrame, speeds: Speeds, *, cached: bool = True) -> Array:
    """Return ``[rows, resources]`` seconds at the specified rates.

    Parameters
    ----------
    rows
        Columns of `roofline.silicon.columns`: ``rate``, ``flops``, ``vector_flops``, ``exponentials``,
        ``read_bytes``, ``write_bytes``, ``link_bytes``.
    cached
        Whether a set that L2 holds may come from it, as it does where a case is run again and again; else every
        byte comes from memory.
    """
    by_rate = {str(name): speeds.rate(str(name)) for name in rows["rate"].unique()}
    rate = rows["rate"].astype(object).map(by_rate).to_numpy(float)
    moved = rows["read_bytes"].to_numpy(float) + rows["write_bytes"].to_numpy(float)
    streamed = moved / speeds.rate("dram.read")
    if cached:
        low, high = (edge * speeds.l2_bytes for edge in L2_EDGES)
        outside = np.clip((moved - low) / (high - low), 0.0, 1.0)
        memory = (1 - outside) * moved / speeds.l2_rate + outside * streamed
    else:
        memory = streamed
    columns = (
        rows["flops"].to_numpy(float) / rate,
        memory,
        rows["exponentials"].to_numpy(float) / speeds.rate("exp.fp32"),
        rows["vector_flops"].to_numpy(float) / speeds.rate("vector.fp32"),
        rows["link_bytes"].to_numpy(float) / speeds.link,
    )
    return np.stack([np.maximum(column, _LEAST) for column in columns], axis=1)


def combine(times: Array, power: float) -> Array:
    """Return one roof per row: the p-norm of its terms. 1 is their sum, infinity the largest."""
    if np.isinf(power):
        return times.max(axis=1)
    largest = times.max(axis=1, keepdims=True)
    return largest[:, 0] * ((times / largest) ** power).sum(axis=1) ** (1 / power)
