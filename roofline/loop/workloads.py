"""From a model to operators: what one pass over some tokens runs on one GPU. Only this file knows layers.

Parallelism: ``tensor`` GPUs hold one copy of the mixers and work on the same tokens; with ``expert`` > 1 the experts
are spread over that many GPUs, which exchange tokens, otherwise every tensor group holds all of them, split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...kernels.precision import BYTES
from .layers import LatentAttention, MixtureOfExperts
from .model import Model
from .work import Operation, Value, Work

OPERATORS = {
    "linear.gemm": "projections and dense feed-forward layers",
    "linear.head": "output head",
    "attention.decode": "one query per sequence over the cache",
    "attention.prefill": "causal attention over whole sequences",
    "attention.mla_decode": "one query per sequence over the latent cache",
    "attention.mla_prefill": "causal latent attention over whole sequences",
    "ssm.mamba2_decode": "Mamba-2 recurrence, one token per sequence",
    "ssm.mamba2_scan": "Mamba-2 recurrence over whole sequences",
    "recurrent.step": "gated-delta recurrence, one token per sequence",
    "recurrent.scan": "gated-delta recurrence over whole sequences",
    "moe.routing": "gate, top-k, permutation",
    "moe.expert_gemm": "grouped products of the routed experts",
    "sampling.logprob": "log-softmax and gather over the vocabulary",
    "collective.all_reduce": "sum over the tensor group",
    "collective.all_to_all": "tokens to experts and back",
}
PRECISION_BYTES = {**{name: float(size) for name, size in BYTES.items()}, "nvfp4": 0.5625, "mxfp4": 0.53125}
_ACTIVATION_BYTES = 2.0
_RECURRENCE = {
    ("mamba2", "decode"): "ssm.mamba2_decode",
    ("mamba2", "prefill"): "ssm.mamba2_scan",
    ("gated_delta", "decode"): "recurrent.step",
    ("gated_delta", "prefill"): "recurrent.scan",
}


@dataclass(frozen=True)
class Shards:
    """How a pass is spread. ``domain`` is the number of GPUs that the scale-up link joins."""

    tensor: int = 1
    expert: int = 1
    domain: int = 8

    @property
    def expert_split(self) -> int:
        """Over how many GPUs the experts' weights are spread."""
        return self.expert if self.expert > 1 else self.tensor


@dataclass(frozen=True)
class Pass:
    """Tokens that one tensor group works on together.

    Parameters
    ----------
    tokens
        Query tokens.
    context
        Mean keys per query token.
    sequences
        Sequences that the tokens belong to.
    mode
        ``decode`` reads the cache once per query; ``prefill`` reads keys once per sequence.
    """

    tokens: Value
    context: Value
    sequences: Value
    mode: Literal["decode", "prefill"]
    precision: str = "bf16"
    cache: str = "bf16"
    logits: Value = 0.0


def weight_bytes(model: Model, shards: Shards, precision: str) -> float:
    """Return bytes of weights on one GPU."""
    size = PRECISION_BYTES[precision]
    common = (model.mixer_parameters + model.dense_parameters + model.embedding_parameters) / shards.tensor
    experts = model.expert_parameters * expert_bytes(model, precision) / shards.expert_split
    return common * size + experts


def expert_bytes(model: Model, precision: str) -> float:
    """Return bytes per expert weight: the run's precision, or the published one where that is narrower."""
    published = model.weight_bits.get("experts")
    return min(PRECISION_BYTES[precision], published / 8 if published else np.inf)


def cache_bytes_per_token(model: Model, shards: Shards, cache: str) -> float:
    """Return cache bytes per token on one GPU; a latent cache is whole on every GPU of the tensor group."""
    return model.kv_bytes_per_token(PRECISION_BYTES[cache]) / _cache_split(model, shards)


def _cache_split(model: Model, shards: Shards) -> int:
    attention = model.attention
    return 1 if isinstance(attention, LatentAttention) else min(shards.tensor, attention.kv_heads)


def touched_experts(moe: MixtureOfExperts, tokens: Value) -> Value:
    """Return the expected experts that ``tokens`` uniform choices reach: E (1 - (1 - k/E)^n)."""
    return moe.experts * (1.0 - (1.0 - moe.top_k / moe.experts) ** tokens)


def operations(model: Model, work: Pass, shards: Shards) -> list[Operation]:
    """Return what one GPU runs for one pass through the whole model."""
    made = [*_mixers(model, work, shards), *_feed_forward(model, work, shards)]
    if np.any(np.asarray(work.logits) > 0):
        made += _head(model, work, shards)
    return made


def _gemm(parameters: float, tokens: Value, width: float, p: Pass, split: float, matrices: float) -> Work:
    """Products with ``parameters`` weights whose inputs are ``width`` wide."""
    outputs = parameters / width
    return Work(
        flops={f"matrix.{p.precision}": 2.0 * tokens * parameters / split},
        read_bytes=(parameters * PRECISION_BYTES[p.precision] + tokens * width * _ACTIVATION_BYTES * matrices) / split,
        write_bytes=tokens * outputs * _ACTIVATION_BYTES / split,
        launches=matrices,
    )


def _mixers(model: Model, p: Pass, s: Shards) -> list[Operation]:
    a, hidden = model.attention, model.hidden
    made = [Operation("linear.gemm", _gemm(a.parameters(hidden), p.tokens, hidden, p, s.tensor, 2), a.layers)]
    full, named = a.layers - a.windowed_layers, f"attention.{'mla_' if a.kind == 'mla' else ''}{p.mode}"
    made.append(Operation(named, _attention(model, p, s, p.context), full))
    if a.windowed_layers:
        seen = np.minimum(p.context, a.window)
        made.append(Operation(named, _attention(model, p, s, seen), a.windowed_layers))
    if r := model.recurrent:
        made.append(Operation("linear.gemm", _gemm(r.parameters(hidden), p.tokens, hidden, p, s.tensor, 2), r.layers))
        # Decode reads and writes the fp32 state once per token; a chunked pass once per chunk of 128 tokens.
        visits = p.tokens if p.mode == "decode" else p.tokens / 128.0 + p.sequences
        recurrence = Work(
            flops={"matrix.bf16": 6.0 * p.tokens * r.state_values / s.tensor},
            read_bytes=4.0 * visits * r.state_values / s.tensor,
            write_bytes=4.0 * visits * r.state_values / s.tensor,
            launches=3,
        )
        made.append(Operation(_RECURRENCE[r.kind, p.mode], recurrence, r.layers))
    return made + _all_reduce(model, p, s, a.layers + (r.layers if (r := model.recurrent) else 0))


def _attention(model: Model, p: Pass, s: Shards, context: Value) -> Work:
    a, size = model.attention, PRECISION_BYTES[p.cache]
    index = 0.0
    if isinstance(a, LatentAttention) and a.index_heads:
        index = 2.0 * p.tokens * context * a.index_heads * a.index_dim / s.tensor
        context = np.minimum(context, a.index_top_k)
    heads = a.q_heads / s.tensor
    dim = a.decode_score_dim if p.mode == "decode" else a.score_dim
    keys = p.tokens * context if p.mode == "decode" else p.tokens
    new = p.tokens * a.cache_values * size / _cache_split(model, s)
    return Work(
        flops={"matrix.bf16": 2.0 * p.tokens * context * heads * dim + index},
        read_bytes=keys * a.cache_values * size / _cache_split(model, s) + p.tokens * heads * dim,
        write_bytes=new + p.tokens * heads * dim,
        exponentials=p.tokens * context * heads,
        launches=2,
    )


def _feed_forward(model: Model, p: Pass, s: Shards) -> list[Operation]:
    hidden, made = model.hidden, []
    if d := model.dense:
        made.append(Operation("linear.gemm", _gemm(d.parameters(hidden), p.tokens, hidden, p, s.tensor, 2), d.layers))
        made += _all_reduce(model, p, s, d.layers)
    if m := model.moe:
        common = m.common_parameters(hidden)
        made.append(Operation("linear.gemm", _gemm(common, p.tokens, hidden, p, s.tensor, 1), m.layers))
        made.append(Operation("moe.routing", _routing(m, p, s), m.layers))
        made.append(Operation("moe.expert_gemm", _experts(model, m, p, s), m.layers))
        made += _all_to_all(model, m, p, s) if s.expert > 1 else _all_reduce(model, p, s, m.layers)
    return made


def _routing(m: MixtureOfExperts, p: Pass, s: Shards) -> Work:
    tokens = p.tokens / s.tensor
    return Work(
        flops={"vector.fp32": 3.0 * tokens * m.experts},
        read_bytes=4.0 * tokens * m.experts,
        write_bytes=12.0 * tokens * m.top_k,
        exponentials=tokens * m.experts,
        launches=3,
    )


def _experts(model: Model, m: MixtureOfExperts, p: Pass, s: Shards) -> Work:
    pool = p.tokens * max(s.expert / s.tensor, 1.0)
    each, width = m.expert_parameters(model.hidden), m.width(model.hidden)
    rows = p.tokens * m.top_k / s.tensor
    weights = touched_experts(m, pool) * each * expert_bytes(model, p.precision) / s.expert_split
    return Work(
        flops={f"matrix.{p.precision}": 2.0 * rows * each},
        read_bytes=weights + rows * (width + m.inter) * _ACTIVATION_BYTES,
        write_bytes=rows * (width + m.inter * (m.matrices - 1)) * _ACTIVATION_BYTES,
        launches=3,
    )


def _head(model: Model, p: Pass, s: Shards) -> list[Operation]:
    head = _gemm(float(model.vocab * model.hidden), p.logits, model.hidden, p, s.tensor, 1)
    values = p.logits * model.vocab / s.tensor
    logprob = Work(
        flops={"vector.fp32": 3.0 * values}, read_bytes=2.0 * values, write_bytes=4.0 * p.logits, exponentials=values
    )
    return [Operation("linear.head", head, 1), Operation("sampling.logprob", logprob, 1)]


def _all_reduce(model: Model, p: Pass, s: Shards, layers: int) -> list[Operation]:
    if s.tensor == 1:
        return []
    sent = 2.0 * (s.tensor - 1) / s.tensor * p.tokens * model.hidden * _ACTIVATION_BYTES
    inside = min(s.tensor, s.domain)
    link: dict[str, Value] = {"scaleup": sent}
    hops = {"scaleup": 1.0}
    if s.tensor > s.domain:
        link["nic"], hops["nic"] = sent / inside, 1.0
    return [Operation("collective.all_reduce", Work(link_bytes=link, hops=hops, launches=0), layers)]


def _all_to_all(model: Model, m: MixtureOfExperts, p: Pass, s: Shards) -> list[Operation]:
    width = m.width(model.hidden)
    sent = p.tokens / s.tensor * m.top_k * width * _ACTIVATION_BYTES
    outside = max(0.0, 1.0 - s.domain / s.expert)
    link: dict[str, Value] = {"scaleup": sent * ((s.expert - 1) / s.expert - outside)}
    hops = {"scaleup": 1.0}
    if outside:
        # A token crosses the network once per group of GPUs that holds one of its experts, then fans out inside.
        groups = s.expert / s.domain
        reached = groups * (1.0 - (1.0 - 1.0 / groups) ** m.top_k)
        link["nic"], hops["nic"] = sent / m.top_k * reached * outside, 1.0
    return [Operation("collective.all_to_all", Work(link_bytes=link, hops=hops, launches=0), 2 * m.layers)]
