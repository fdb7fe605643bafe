"""The user's code in torch: ``index_select`` by the token of each choice, of rows quantised before if asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...contract import Arrays, Inputs, Prepared
from ...narrow_formats import E4M3_LARGEST
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from ..expert_rows import check_source
from .operator import BLOCK, Dispatch

if TYPE_CHECKING:
    import torch


def _quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    tokens, hidden = x.shape
    blocks = torch.nn.functional.pad(x.float(), (0, -hidden % BLOCK)).view(tokens, -1, BLOCK)
    scale = blocks.abs().amax(dim=2) / E4M3_LARGEST
    inverse = torch.where(scale > 0, 1.0 / scale, 0.0).unsqueeze(-1)
    code = (blocks * inverse).clamp(-E4M3_LARGEST, E4M3_LARGEST).to(torch.float8_e4m3fn).view(torch.uint8)
    return code.view(tokens, -1)[:, :hidden].contiguous(), scale


@implementation("moe.dispatch", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Eager operations."""
    import torch

    w = inputs.workload
    assert isinstance(w, Dispatch)
    check_source(inputs)
    x, source = (to_tensor(inputs.arrays[name], device) for name in ("x", "source"))
    latest: dict[str, torch.Tensor] = {}

    def run() -> None:
        with torch.inference_mode():
            token = source // w.top_k
            if w.quantize == "none":
                latest["y"] = x.index_select(0, token)
            else:
                code, scale = _quantize(x)
                latest.update(code=code.index_select(0, token), scale=scale.index_select(0, token))

    def output() -> Arrays:
        return {name: to_array(value) for name, value in latest.items()}

    return Prepared(run, output)
