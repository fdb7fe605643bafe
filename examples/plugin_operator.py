"""Your own operator with its own cost, here RMSNorm: ``y = x / sqrt(mean(x**2) + 1e-6)`` for every row.

roofcast bench --operator norm.rms_example --workload rows=4096,hidden=2048 --plugin examples/plugin_operator.py
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from roofcast.kernels import Cost, Inputs, Operator, Prepared, Workload, implementation, register_operator, require
from roofcast.kernels.precision import compare_floats, tolerance

NAME = "norm.rms_example"


@dataclass(frozen=True)
class RmsNorm(Workload):
    """Rows of ``hidden`` fp32 numbers."""

    operator: ClassVar[str] = NAME
    rows: int = 4096
    hidden: int = 2048

    def __post_init__(self) -> None:
        require(self.rows >= 1, "rows", self.rows, "give at least 1")
        require(self.hidden >= 1, "hidden", self.hidden, "give at least 1")


register_operator(
    Operator(
        name=NAME,
        summary="root mean square normalisation of rows",
        phases=("rollout", "train"),
        workload_type=RmsNorm,
        cost=lambda w: Cost(
            flops={"vector.fp32": 3.0 * w.rows * w.hidden},  # one multiply-add for the sum, one multiplication
            read_bytes={"dram": 4.0 * w.rows * w.hidden},
            write_bytes={"dram": 4.0 * w.rows * w.hidden},
        ),
        make_inputs=lambda w, seed: Inputs(
            w, seed, {"x": np.random.default_rng(seed).standard_normal((w.rows, w.hidden), dtype=np.float32)}
        ),
        reference=lambda inputs: _normalise(inputs.arrays["x"].astype(np.float64)),
        compare=lambda got, want, inputs: compare_floats(got, want, tolerance("fp32", inputs.workload.hidden)),
    )
)


def _normalise(x: np.ndarray) -> dict[str, np.ndarray]:
    return {"y": x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6)}


@implementation(NAME, backend="user", devices=("cpu",), name="numpy", baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Bind the inputs of one case."""
    out = {}
    return Prepared(lambda: out.update(_normalise(inputs.arrays["x"])), lambda: out)
