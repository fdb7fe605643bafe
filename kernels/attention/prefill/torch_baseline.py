"""The user's code in torch: scaled_dot_product_attention, and matrix products where it lacks sinks or a softcap.

Each sequence's heads stand contiguous, ``[batch, heads, tokens, head_dim]``, arranged in ``prepare`` and never timed,
which favours torch. A batch of equal lengths is one call; otherwise each sequence is a call of its own, so that
nothing is padded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_tensor
from .operator import AttentionPrefill

if TYPE_CHECKING:
    import torch


class _Call(NamedTuple):
    """One call: rows of the queries ``[batch, tokens]``, the tensors, and the visible pairs where a mask is needed."""

    rows: Any
    q: Any
    k: Any
    v: Any
    seen: Any


def _token_rows(offsets: Any, members: list[int]) -> Any:
    return np.stack([np.arange(offsets[b], offsets[b + 1]) for b in members])


def _make_calls(inputs: Inputs, device: str) -> list[_Call]:
    """Return the calls of a workload; ``seen`` is None where all is seen or the mask is plainly causal."""
    import torch

    w: Any = inputs.workload
    arrays = inputs.arrays
    starts, key_starts = arrays["query_offsets"], arrays["key_offsets"]
    same = len(set(np.diff(starts))) == 1
    calls = []
    for members in [list(range(w.batch))] if same else [[b] for b in range(w.batch)]:
        rows, keys = _token_rows(starts, members), _token_rows(key_starts, members)
        q, k, v = (
            to_tensor(np.ascontiguousarray(arrays[name][at].swapaxes(1, 2)), device)
            for name, at in (("q", rows), ("k", keys), ("v", keys))
        )
        seen = w.mask.dense(rows.shape[1], keys.shape[1])
        plain = seen.all() or _is_plain(w, rows.shape[1], keys.shape[1])
        calls.append(_Call(rows, q, k, v, None if plain else torch.from_numpy(seen).to(device)))
    return calls


def _is_plain(w: Any, queries: int, keys: int) -> bool:
    """Return whether a sequence's mask is the one that torch calls causal."""
    return w.causal and queries == keys and (not w.window or w.window >= keys)


def _attend(w: Any, call: _Call, sinks: torch.Tensor | None) -> torch.Tensor:
    """Return what the queries of a call see, ``[batch, heads, tokens, head_dim]``."""
    import torch
    import torch.nn.functional as F  # noqa: N812  the name everybody uses

    q, k, v = call.q, call.k, call.v
    causal = w.causal and call.seen is None and q.shape[2] > 1
    if sinks is None and not w.softcap:
        if k.shape[2] == 0:
            return torch.zeros_like(q)
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=call.seen, is_causal=causal, scale=w.scale, enable_gqa=w.group > 1
        )
    s = ((q * w.scale).unflatten(1, (w.kv_heads, w.group)) @ k.unsqueeze(2).mT).float()
    if w.softcap:
        s = w.softcap * torch.tanh(s / w.softcap)
    seen = torch.ones(s.shape[-2:], dtype=torch.bool, device=q.device).tril() if causal else call.seen
    if seen is not None:
        s = s.masked_fill(~seen, float("-inf"))
    if sinks is not None:
        column = sinks.view(1, w.kv_heads, w.group, 1, 1).expand(*s.shape[:-1], 1)
        s = torch.cat([s, column], -1)
    p = torch.softmax(s, -1)[..., : k.shape[2]].nan_to_num(0.0)
    return (p.to(v.dtype) @ v.unsqueeze(2)).flatten(1, 2)


@implementation("attention.prefill", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """``scaled_dot_product_attention``, which gives no ``lse``."""
    import torch

    w = inputs.workload
    assert isinstance(w, AttentionPrefill)
    calls = _make_calls(inputs, device)
    sinks = to_tensor(inputs.arrays["sinks"], device) if w.sinks else None
    latest: list[Any] = []

    def run() -> None:
        with torch.inference_mode():
            latest[:] = [_attend(w, call, sinks) for call in calls]

    def output() -> Arrays:
        out = np.empty(inputs.arrays["q"].shape, np.float32)
        for call, result in zip(calls, latest, strict=True):
            out[call.rows] = result.float().cpu().numpy().swapaxes(1, 2)
        return {"out": out}

    return Prepared(run, output)
