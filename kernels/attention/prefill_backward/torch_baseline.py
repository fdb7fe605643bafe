"""The user's code in torch: autograd through scaled_dot_product_attention, whose forward pass is not timed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_tensor
from .operator import AttentionPrefillBackward


@implementation("attention.prefill_backward", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """A call per sequence, or one for a batch of equal lengths; heads stand contiguous, arranged untimed."""
    import torch
    import torch.nn.functional as F  # noqa: N812  the name everybody uses

    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, AttentionPrefillBackward)
    starts, key_starts = arrays["query_offsets"], arrays["key_offsets"]
    same = len(set(np.diff(starts))) == 1
    calls: list[tuple[Any, ...]] = []
    for members in [list(range(w.batch))] if same else [[b] for b in range(w.batch)]:
        rows = np.stack([np.arange(starts[b], starts[b + 1]) for b in members])
        keys = np.stack([np.arange(key_starts[b], key_starts[b + 1]) for b in members])
        if keys.shape[1] == 0:
            continue
        q, k, v, dout = (
            to_tensor(np.ascontiguousarray(arrays[name][at].swapaxes(1, 2)), device)
            for name, at in (("q", rows), ("k", keys), ("v", keys), ("dout", rows))
        )
        leaves = tuple(x.requires_grad_() for x in (q, k, v))
        seen = w.mask.dense(rows.shape[1], keys.shape[1])
        # Torch's own causal mask is faster than one that is given.
        causal = w.causal and rows.shape[1] == keys.shape[1] > 1 and (not w.window or w.window >= keys.shape[1])
        mask = None if causal or seen.all() else torch.from_numpy(seen).to(device)
        out = F.scaled_dot_product_attention(
            *leaves, attn_mask=mask, is_causal=causal, scale=w.scale, enable_gqa=w.group > 1
        )
        calls.append((rows, keys, out, leaves, dout))
    latest: list[Any] = []

    def run() -> None:
        latest[:] = [torch.autograd.grad(out, leaves, d, retain_graph=True) for _, _, out, leaves, d in calls]

    def output() -> Arrays:
        found = {f"d{name}": np.zeros(arrays[name].shape, np.float32) for name in ("q", "k", "v")}
        for (rows, keys, *_), gradients in zip(calls, latest, strict=True):
            for name, at, gradient in zip(("dq", "dk", "dv"), (rows, keys, keys), gradients, strict=True):
                found[name][at] = gradient.float().cpu().numpy().swapaxes(1, 2)
        return found

    return Prepared(run, output)
