"""Quantisation as weight-sync code writes it in eager torch: reshape to blocks, amax, divide, cast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...contract import Arrays, Inputs, Prepared
from ...narrow_formats import E2M1_LARGEST, E4M3_LARGEST
from ...registry import implementation
from ...torch_arrays import to_tensor
from .operator import BLOCK, GROUP, Quantize

if TYPE_CHECKING:
    import torch

# Where the next value of e2m1 begins, with the ties given to even codes by the choice of side below.
_MIDDLES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


def _fp8(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    import torch

    rows, columns = weight.shape
    padded = torch.nn.functional.pad(weight, (0, -columns % BLOCK, 0, -rows % BLOCK))
    blocks = padded.view(padded.shape[0] // BLOCK, BLOCK, -1, BLOCK)
    scale = blocks.abs().amax(dim=(1, 3), keepdim=True).float() / E4M3_LARGEST
    inverse = torch.where(scale > 0, 1.0 / scale, 0.0)
    code = (blocks.float() * inverse).clamp(-E4M3_LARGEST, E4M3_LARGEST).to(torch.float8_e4m3fn)
    code = code.view(torch.uint8).view(padded.shape)[:rows, :columns].contiguous()
    return {"code": code, "scale": scale[:, 0, :, 0]}


def _nvfp4(weight: torch.Tensor, amax: torch.Tensor | None) -> dict[str, torch.Tensor]:
    import torch

    groups = weight.view(weight.shape[0], -1, GROUP)
    largest = groups.abs().amax(dim=2).float()
    tensor_scale = (largest.amax() if amax is None else amax) / (E4M3_LARGEST * E2M1_LARGEST)
    inverse = torch.where(tensor_scale > 0, 1.0 / tensor_scale, 0.0)
    scale = (largest / E2M1_LARGEST * inverse).clamp(max=E4M3_LARGEST).to(torch.float8_e4m3fn)
    wide = scale.float() * tensor_scale
    scaled = groups.float() * torch.where(wide > 0, 1.0 / wide, 0.0).unsqueeze(-1)
    # A tie goes to the even code: below it for every other middle.
    middles = torch.tensor(_MIDDLES, device=weight.device)
    magnitude = scaled.abs()
    code = torch.bucketize(magnitude, middles, out_int32=True)
    tie = torch.zeros_like(code)
    for middle in _MIDDLES[1::2]:
        tie += magnitude == middle
    code = (code + tie).to(torch.uint8) | (torch.signbit(scaled).to(torch.uint8) << 3)
    code = code.view(weight.shape[0], -1)
    packed = code[:, 0::2] | (code[:, 1::2] << 4)
    return {"code": packed, "scale": scale.view(torch.uint8), "tensor_scale": tensor_scale.reshape(1)}


@implementation("sync.quantize", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Eager operations."""
    import torch

    w = inputs.workload
    assert isinstance(w, Quantize)
    tensors = {name: to_tensor(array, device) for name, array in inputs.arrays.items()}
    latest: dict[str, torch.Tensor] = {}

    def run() -> None:
        with torch.inference_mode():
            weight = tensors["weight"]
            latest.update(_fp8(weight) if w.format == "fp8_block128" else _nvfp4(weight, tensors.get("amax")))

    def output() -> Arrays:
        return {name: value.cpu().numpy() for name, value in latest.items()}

    return Prepared(run, output)
