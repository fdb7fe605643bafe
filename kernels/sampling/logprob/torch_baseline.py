"""The user's code in torch: log-softmax in fp32, gather, entropy; and the form that keeps no second copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from .operator import Logprob, check_tokens

if TYPE_CHECKING:
    import torch


def _tensors(inputs: Inputs, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    stored = inputs.arrays["logits"]
    if stored.dtype == np.uint16:
        logits = torch.from_numpy(stored.view(np.int16)).view(torch.bfloat16)
    else:
        logits = torch.from_numpy(stored)
    return logits.to(device), torch.from_numpy(inputs.arrays["token"]).to(device)


def _prepare(inputs: Inputs, device: str, compute: Callable[..., dict[str, torch.Tensor]]) -> Prepared:
    import torch

    w = inputs.workload
    assert isinstance(w, Logprob)
    check_tokens(inputs)
    logits, token = _tensors(inputs, device)
    latest: dict[str, torch.Tensor] = {}

    def run() -> None:
        with torch.inference_mode():
            x = logits.float()
            result = compute(x / w.temperature if w.temperature != 1.0 else x, token.unsqueeze(-1), w)
            if w.rows_per_sequence > 1:
                result["sequence_logprob"] = result["logprob"].view(-1, w.rows_per_sequence).sum(-1)
        latest.update(result)

    def output() -> Arrays:
        return {name: value.cpu().numpy() for name, value in latest.items()}

    return Prepared(run, output)


def _log_softmax(x: torch.Tensor, token: torch.Tensor, w: Logprob) -> dict[str, torch.Tensor]:
    import torch

    logp = torch.log_softmax(x, dim=-1)
    out = {"logprob": logp.gather(-1, token).squeeze(-1)}
    if w.entropy:
        out["entropy"] = -(logp.exp() * logp).sum(-1)
    if w.top_n:
        out["top_logprob"], out["top_token"] = logp.topk(w.top_n, dim=-1)
    return out


def _logsumexp(x: torch.Tensor, token: torch.Tensor, w: Logprob) -> dict[str, torch.Tensor]:
    import torch

    lse = torch.logsumexp(x, dim=-1)
    out = {"logprob": x.gather(-1, token).squeeze(-1) - lse}
    if w.entropy:
        out["entropy"] = lse - (torch.softmax(x, dim=-1) * x).sum(-1)
    if w.top_n:
        values, out["top_token"] = x.topk(w.top_n, dim=-1)
        out["top_logprob"] = values - lse.unsqueeze(-1)
    return out


@implementation("sampling.logprob", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """``log_softmax``, ``gather`` and ``-(p log p).sum()``: what most training code does."""
    return _prepare(inputs, device, _log_softmax)


@implementation("sampling.logprob", backend="torch", devices=("cpu", "cuda"), name="torch_logsumexp")
def prepare_logsumexp(inputs: Inputs, device: str) -> Prepared:
    """``gather`` minus ``logsumexp``, with the entropy from one softmax."""
    return _prepare(inputs, device, _logsumexp)
