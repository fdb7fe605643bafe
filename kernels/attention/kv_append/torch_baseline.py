"""The user's code in torch: the rotation in halves, then an indexed write into the pages."""

from __future__ import annotations

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_stored, to_tensor
from .operator import KvAppend, read_back


@implementation("attention.kv_append", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Eager operations, the rotation in fp32."""
    import torch

    w = inputs.workload
    assert isinstance(w, KvAppend)
    a = {name: to_tensor(array, device, copy=True) for name, array in inputs.arrays.items()}
    steps = torch.arange(w.new_tokens, device=device)

    def run() -> None:
        with torch.inference_mode():
            position = a["starts"].long().unsqueeze(1) + steps
            page, place = a["page_table"].long().gather(1, position // w.page_size), position % w.page_size
            cos, sin = a["rotary"][position].unsqueeze(2).chunk(2, dim=-1)
            first, second = a["k"].float().chunk(2, dim=-1)
            k = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
            a["k_pages"][page, :, place] = k.to(a["k"].dtype)
            a["v_pages"][page, :, place] = a["v"]

    def output() -> Arrays:
        return read_back(to_stored(a["k_pages"]), to_stored(a["v_pages"]), inputs)

    return Prepared(run, output)
