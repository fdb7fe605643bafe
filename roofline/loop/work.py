"""Work of operators as arrays: the counts of `kernels.Cost`, for many batch sizes or scenario points at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...kernels.contract import Cost

Array = npt.NDArray[np.floating[Any]]
Value = float | Array


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one call of an operator must do on one GPU. Every count may be an array; they broadcast.

    Parameters
    ----------
    flops
        By ceiling name, such as ``matrix.bf16``.
    read_bytes, write_bytes
        Main memory.
    exponentials
        Evaluations of exp.
    link_bytes
        Sent per GPU, by link: ``scaleup`` (within the domain) and ``nic``.
    launches
        Kernels.
    hops
        Latencies of the network on the way, by link.
    """

    flops: Mapping[str, Value] = field(default_factory=dict)
    read_bytes: Value = 0.0
    write_bytes: Value = 0.0
    exponentials: Value = 0.0
    link_bytes: Mapping[str, Value] = field(default_factory=dict)
    launches: float = 1.0
    hops: Mapping[str, float] = field(default_factory=dict)

    def cost(self) -> Cost:
        """Return scalar work as a `Cost`, to be projected like a measured workload."""
        return Cost(
            flops={name: float(value) for name, value in self.flops.items()},
            read_bytes={"dram": float(self.read_bytes)},
            write_bytes={"dram": float(self.write_bytes)},
            exponentials=float(self.exponentials),
            launches=int(self.launches),
            link_bytes=float(sum(np.asarray(value) for value in self.link_bytes.values())),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the counts, arrays reduced to their mean, for explanations."""

        def mean(value: Value) -> float:
            return float(np.mean(value))

        return {
            "flops": {name: mean(value) for name, value in self.flops.items()},
            "dram_bytes": mean(self.read_bytes) + mean(self.write_bytes),
            "exponentials": mean(self.exponentials),
            "link_bytes": {name: mean(value) for name, value in self.link_bytes.items()},
            "launches": self.launches,
        }


@dataclass(frozen=True)
class Operation:
    """``count`` calls of an operator with the same work."""

    operator: str
    work: Work
    count: float
