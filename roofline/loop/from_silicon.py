"""What a real GPU's measured tables say of operators on a system: their carried times, turned into factors.

Of every shape that models are served with, the fastest kernel of the tables is carried to the system
(`roofline.transfer`), as an engine would choose it, and held against the class of kernels at the same roof. An
operator's factor is the geometric mean over its shapes; so are the ends of its band.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..silicon import silicon_gpu
from ..tables import KernelClass, class_of_operator, kernel_class
from ..transfer.classes import attained_roof, classified_rows
from ..transfer.model import overheads
from ..transfer.pairs import gpu_speeds
from ..transfer.project import project_rows
from .phase import BASES
from .system import System
from .time_source import OperatorFactor
from .work import Array

if TYPE_CHECKING:
    import pandas as pd

# The loop's operators, by operator of the tables.
_MEASURED = {
    "linear.gemm": "linear.gemm",
    "attention.decode": "attention.decode",
    "attention.prefill": "attention.prefill",
    "attention.latent_decode": "attention.mla_decode",
    "attention.latent_prefill": "attention.mla_prefill",
    "moe.experts": "moe.expert_gemm",
    "recurrent.step": "recurrent.step",
    "recurrent.scan": "recurrent.scan",
}
# The precision at which a factor is taken; the class follows the precision of the scenario.
_PRECISION = "bf16"


def silicon_factors(gpu: str, system: System) -> dict[str, OperatorFactor]:
    """Return one factor per operator of the loop that the GPU's tables hold.

    Raises
    ------
    UnknownGpuError, SiliconMissingError
        If there are no tables of the GPU.
    """
    name = silicon_gpu(gpu).name
    rows = _fastest_rows(name)
    carried = project_rows(rows, gpu_speeds(name), system.target)
    roof = attained_roof(rows, system.target.attained["mid"])
    made = {}
    for table_name, own in carried.groupby("operator", observed=True):
        operator = _MEASURED[str(table_name)]
        kind = kernel_class("gemm.bf16") if operator == "linear.gemm" else class_of_operator(operator)
        plain = _median_time(kind, roof[own.index])
        low, mid, high = (float(np.exp(np.mean(np.log(own[f"{end}_s"] / plain)))) for end in ("low", "mid", "high"))
        bases = [str(name) for name in own["basis"].unique()]
        text = f"silicon:{name}, {len(own):,} shapes of {table_name} in {_PRECISION}, the fastest kernel of each"
        basis = max(bases, key=BASES.index)
        made[operator] = OperatorFactor(min(low, mid), mid, max(high, mid), basis, text)
    return made


@lru_cache(maxsize=4)
def _fastest_rows(gpu: str) -> pd.DataFrame:
    rows = classified_rows(gpu)
    rows = rows[rows["operator"].isin(list(_MEASURED)) & rows["precision"].astype(str).str.startswith(_PRECISION)]
    rows = rows.reset_index(drop=True)
    rows = rows.assign(overhead_s=overheads(rows))
    fastest = rows.groupby(["operator", "workload"], observed=True, sort=False)["time_s"].idxmin()
    return rows.loc[fastest.sort_values()].reset_index(drop=True)


def _median_time(kind: KernelClass, roof: Array) -> Array:
    stretch = np.interp(np.log(np.maximum(roof, 1e-12)), kind.log_roof, [node[1] for node in kind.log_stretch])
    return np.exp(stretch) * (kind.floor(1) + roof)
