"""Tile shapes of Triton's matrix products, by compile target.

Chosen without the GPUs, by what compilation shows (`profiler.compilation`): the target's widest matrix instruction, no
spilled registers, and shared memory for as many stages as fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FEW_ROWS = 16
"""Rows of a tile for work that is bound by reading weights: the least that matrix instructions take."""


@dataclass(frozen=True)
class TileConfig:
    """A tile of ``bm`` activation rows by ``bn`` weight rows, ``bk`` summed elements per step."""

    bm: int
    bn: int
    bk: int
    num_warps: int
    num_stages: int
    tma: bool
    precision: str

    def constexprs(self) -> dict[str, Any]:
        """Return the compile-time parameters that every kernel takes."""
        return {"BM": self.bm, "BN": self.bn, "BK": self.bk, "TMA": self.tma, "PRECISION": self.precision}


# (rows, columns, summed elements per step, warps, stages), bf16 with many rows. A pair of products (gate and up) takes
# two accumulators of this size, so that its columns are halved where registers hold them.
_MANY = {
    "sm_80": (128, 128, 32, 8, 3),
    "sm_90": (128, 256, 64, 8, 3),
    "sm_100": (128, 256, 64, 8, 3),
    "sm_103": (128, 256, 64, 8, 3),
    "sm_107": (128, 256, 64, 8, 3),
    "sm_120": (128, 128, 32, 8, 3),
    "gfx942": (128, 128, 32, 8, 2),
    "gfx950": (128, 128, 64, 8, 2),
}
_FEW = (FEW_ROWS, 128, 128, 4, 3)
_FEW_SMALL = (FEW_ROWS, 128, 64, 4, 2)  # where a block has 64 to 100 KB of shared memory
# fp32: three products of tf32 per product on NVIDIA, whose error is that of fp32; AMD has a matrix unit for fp32.
_MANY_FP32 = (64, 64, 32, 4, 2)
_FEW_FP32 = (FEW_ROWS, 64, 64, 4, 2)


def tile_config(target: str, precision: str, *, few: bool, pair: bool) -> TileConfig:
    """Return the tile for a target such as ``sm_100``; for one that is not in the table that of its nearest ancestor.

    Parameters
    ----------
    few
        Whether rows are so few that reading the weights is the work.
    pair
        Whether a tile holds two products.
    """
    nvidia = target.startswith("sm_")
    number = int(target[3:]) if nvidia else 0
    if precision == "fp32":
        shape = _FEW_FP32 if few else _MANY_FP32
    elif few:
        small = not nvidia or number >= 120
        shape = _FEW_SMALL if small else _FEW
    else:
        shape = _MANY[_known(target)]
    bm, bn, bk, warps, stages = shape
    tma = nvidia and number >= 90
    inputs = "tf32x3" if nvidia and precision == "fp32" else "ieee"
    return TileConfig(bm, bn // 2 if pair else bn, bk, warps, stages, tma, inputs)


def _known(target: str) -> str:
    if target in _MANY:
        return target
    if not target.startswith("sm_"):
        return "gfx942"
    older = [name for name in _MANY if name.startswith("sm_") and int(name[3:]) <= int(target[3:])]
    return max(older, key=lambda name: int(name[3:]), default="sm_80")


def device_target(device: str) -> str:
    """Return the compile target of a device; in Triton's interpreter, on ``cpu``, that of the newest one."""
    import torch

    if device == "cpu":
        return "sm_100"
    if torch.version.hip:
        return torch.cuda.get_device_properties(device).gcnArchName.split(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def launch_programs(device: str) -> int:
    """Return how many programs a persistent kernel starts: one per processor; a few in the interpreter."""
    import torch

    return 3 if device == "cpu" else torch.cuda.get_device_properties(device).multi_processor_count


def allow_descriptors(device: str) -> None:
    """Give Triton a source of memory for the descriptors that kernels make."""
    import torch
    import triton

    def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int8, device=device)

    triton.set_allocator(allocate)
