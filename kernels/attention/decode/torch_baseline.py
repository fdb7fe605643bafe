"""The user's code in torch: grouped matrix products, and scaled_dot_product_attention.

Torch has no paged cache. Both get each sequence's keys and values contiguous, gathered in ``prepare`` and never timed:
that favours torch, whose user would gather or keep padded copies. A batch of equal lengths is one call; otherwise each
sequence is a call of its own on its own length, so that nothing is padded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Arrays, Inputs, Prepared, UnsupportedError
from ...registry import implementation
from .operator import AttentionDecode
from .reference import gather_pages, visible_keys

if TYPE_CHECKING:
    import torch

    Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None], tuple[Any, Any]]


def _tensor(stored: Any, device: str) -> torch.Tensor:
    import torch

    stored = np.ascontiguousarray(stored)
    if stored.dtype == np.uint16:
        return torch.from_numpy(stored.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(stored).to(device)


def _calls(inputs: Inputs, device: str) -> list[tuple[Any, ...]]:
    """Return per call the batch rows, q ``[batch, heads, tokens, dim]``, contiguous k and v, and the mask or None."""
    import torch

    w = inputs.workload
    assert isinstance(w, AttentionDecode)
    arrays = inputs.arrays
    lengths = arrays["lengths"].tolist()
    rows = [list(range(w.batch))] if len(set(lengths)) == 1 else [[b] for b in range(w.batch)]
    calls = []
    for members in rows:
        length = lengths[members[0]]
        first = max(length - w.query_tokens + 1 - w.window, 0) if w.window else 0
        k, v = (
            _tensor(
                np.stack([gather_pages(arrays[n], arrays["page_table"][b], length)[:, first:] for b in members]), device
            )
            for n in ("k_pages", "v_pages")
        )
        q = _tensor(arrays["q"][members].swapaxes(1, 2), device)
        seen = visible_keys(length, w.query_tokens, w.window)[:, first:]
        mask = None if seen.all() else torch.from_numpy(seen).to(device)
        calls.append((members, q, k, v, mask))
    return calls


def _prepare(inputs: Inputs, device: str, attend: Attend) -> Prepared:
    import torch

    calls = _calls(inputs, device)
    latest: list[tuple[Any, Any]] = []

    def run() -> None:
        with torch.inference_mode():
            latest[:] = [attend(q, k, v, mask) for _, q, k, v, mask in calls]

    def output() -> Arrays:
        order = np.argsort(np.concatenate([members for members, *_ in calls]))
        parts: Arrays = {"out": np.concatenate([o.float().cpu().numpy() for o, _ in latest])[order].swapaxes(1, 2)}
        if latest[0][1] is not None:
            parts["lse"] = np.concatenate([lse.float().cpu().numpy() for _, lse in latest])[order].swapaxes(1, 2)
        return parts

    return Prepared(run, output)


@implementation("attention.decode", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Products with the query heads of a KV head as rows of one matrix, softmax in fp32; the faster way on a CPU."""
    import torch

    w = inputs.workload
    assert isinstance(w, AttentionDecode)
    sinks = _tensor(inputs.arrays["sinks"], device).view(1, w.kv_heads, w.group, 1) if w.sinks else None

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> tuple[Any, Any]:
        batch, tokens = q.shape[0], w.query_tokens
        grouped = q.reshape(batch, w.kv_heads, w.group * tokens, w.head_dim) * w.scale
        s = (grouped @ k.mT).float().view(batch, w.kv_heads, w.group, tokens, -1)
        if mask is not None:
            s.masked_fill_(~mask, float("-inf"))
        lse = torch.logsumexp(s, -1)
        if sinks is not None:
            lse = torch.logaddexp(lse, sinks)
        p = torch.exp(s - lse.unsqueeze(-1)).to(v.dtype).flatten(2, 3)
        return (p @ v).view(q.shape), lse.flatten(1, 2)

    return _prepare(inputs, device, attend)


@implementation("attention.decode", backend="torch", devices=("cpu", "cuda"), name="torch_sdpa")
def prepare_sdpa(inputs: Inputs, device: str) -> Prepared:
    """``scaled_dot_product_attention(enable_gqa=True)``, which knows no sinks and gives no ``lse``."""
    import torch.nn.functional as F  # noqa: N812  the name everybody uses

    w = inputs.workload
    assert isinstance(w, AttentionDecode)
    if w.sinks:
        raise UnsupportedError("torch's scaled_dot_product_attention has no sinks; use sinks=False")

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> tuple[Any, Any]:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=w.scale, enable_gqa=True), None

    return _prepare(inputs, device, attend)
