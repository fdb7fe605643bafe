"""Like for like: the same kernel and shape on two GPUs, and the pairs of GPUs that may teach about a third."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from ..silicon import gpu_names, has_tables, import_gpu, silicon_gpu
from ..tables import generation
from .device import Speeds, speeds_of
from .model import overheads

if TYPE_CHECKING:
    import pandas as pd

TransferBasis = Literal["same_architecture", "next_generation", "two_generations", "downward"]

# Data-centre Blackwell is what the method is judged on; it never takes part in choosing it.
DEVELOPMENT = ("a100", "l40s", "h100", "h200", "rtx-pro-6000")
HELD_OUT = ("b200", "b300", "gb200", "gb300")
# A group with fewer shapes in common says little.
LEAST_SHAPES = 20
# A target with less than this share of the source's bandwidth or arithmetic is a smaller device.
_SMALLER = 0.75


def matched(source: str, target: str, *, most: int | None = None) -> pd.DataFrame:
    """Return the rows of ``source`` that were measured on ``target`` too, with ``target_s`` and ``overhead_s``.

    Like for like means equal framework, version, operator, kernel, precision and shape.

    Parameters
    ----------
    most
        Keep about so many rows of each group, those whose shapes hash lowest: the same ones on every pair.
    """
    import pandas as pd

    here, there = import_gpu(source).rows, import_gpu(target).rows
    common = sorted(set(here["group"].cat.categories) & set(there["group"].cat.categories))
    here = here.assign(overhead_s=overheads(here)) if len(here) else here.assign(overhead_s=0.0)
    here, there = here[here["group"].isin(common)], there[there["group"].isin(common)][["group", "workload", "time_s"]]
    if most is not None:
        sizes = here["group"].value_counts()
        limit = np.minimum(1.0, most / np.asarray(here["group"].astype(object).map(sizes), dtype=np.float64))
        here = here[_place(here["workload"]) < limit]
        there = there[there["workload"].isin(here["workload"].unique())]
    keys = ["group", "workload"]
    here = here.assign(**{name: here[name].astype(str) for name in keys})
    other = there.assign(**{name: there[name].astype(str) for name in keys}).rename(columns={"time_s": "target_s"})
    both = pd.merge(here, other, on=keys)
    count = both.groupby("group")["time_s"].transform("size")
    return both[count >= LEAST_SHAPES].reset_index(drop=True)


def _place(workloads: pd.Series) -> npt.NDArray[np.float64]:
    """Return a place between 0 and 1 for each shape, by its hash."""
    import pandas as pd

    # Rows that were drawn by their hash before, as a sample of the tables is, need another one.
    hashed = pd.util.hash_pandas_object(workloads.astype(object), index=False, hash_key="roofcast-lessons").to_numpy()
    return hashed / 2.0**64


@lru_cache(maxsize=32)
def gpu_speeds(name: str) -> Speeds:
    """Return the speeds of a GPU of the tables."""
    return speeds_of(silicon_gpu(name).profile)


def basis_between(source: Speeds, target: Speeds) -> TransferBasis:
    """Return what a transfer stands on: whether the architecture changes, and whether the device is a smaller one."""
    if source.family == target.family:
        return "downward" if _smaller(source, target) else "same_architecture"
    here, there = generation(source.architecture), generation(target.architecture)
    if _smaller(source, target) or (here is not None and there is not None and there < here):
        return "downward"
    if here is not None and there is not None and there - here >= 2:
        return "two_generations"
    return "next_generation"


def _smaller(source: Speeds, target: Speeds) -> bool:
    return any(target.rate(name) < _SMALLER * source.rate(name) for name in ("dram.read", "matrix.bf16"))


def teaching_pairs(target_family: str | None, *, held_out: bool = False) -> list[tuple[str, str]]:
    """Return the pairs of GPUs that may teach about a target of a family: none of it takes part, on either side.

    GPUs without tables here are left out.

    Parameters
    ----------
    held_out
        Also the pairs from the development GPUs onto data-centre Blackwell, for targets that come after it.
    """
    here = [name for name in gpu_names() if has_tables(name)]
    taught = [name for name in DEVELOPMENT if name in here and silicon_gpu(name).family != target_family]
    pairs = [(a, b) for a in taught for b in taught if a != b]
    if held_out:
        pairs += [(a, b) for a in taught for b in HELD_OUT if b in here]
    return pairs
