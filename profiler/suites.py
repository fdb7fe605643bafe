"""Named suites of workloads.

An operator's entry stands here once: the shapes of a real model (Qwen3-30B-A3B unless said otherwise: 48 layers, hidden
size 2048, 32 query and 4 key heads of 128, 128 experts of which 8 are chosen, vocabulary 151936) with the number of
sequences or tokens cut so that one call takes milliseconds on two cores.
"""

from __future__ import annotations

import difflib
from typing import Any

from ..kernels import Workload, get_operator, make_workload, operator_names
from .silicon_suite import SILICON

Fields = dict[str, Any]

# Per operator: the workload of the quick suite first, then those that the wider suites add.
WORKLOADS: dict[str, list[Fields]] = {
    "moe.routing": [
        {"tokens": 8192, "experts": 128, "top_k": 8},
        {"tokens": 8192, "experts": 128, "top_k": 8, "skew": "zipf"},
        {"tokens": 128, "experts": 128, "top_k": 8},
        # DeepSeek-V3: 256 experts in 8 groups of which 4 are kept, sigmoid gate with bias, weights scaled by 2.5.
        {
            "tokens": 4096,
            "experts": 256,
            "top_k": 8,
            "gate": "sigmoid",
            "groups": 8,
            "groups_kept": 4,
            "scale": 2.5,
        },
    ],
    "moe.expert_gemm": [
        {"tokens": 16, "experts": 128, "top_k": 8, "hidden": 2048, "inter": 768, "precision": "bf16"},
        {"tokens": 512, "experts": 128, "top_k": 8, "hidden": 2048, "inter": 768, "precision": "bf16"},
        {"tokens": 256, "experts": 32, "top_k": 8, "hidden": 2048, "inter": 768, "precision": "fp32"},
        {
            "tokens": 512,
            "experts": 128,
            "top_k": 8,
            "hidden": 2048,
            "inter": 768,
            "precision": "bf16",
            "skew": "zipf",
        },
    ],
    "moe.dispatch": [
        {"tokens": 2048, "experts": 128, "top_k": 8, "hidden": 2048, "precision": "bf16"},
        {"tokens": 2048, "experts": 128, "top_k": 8, "hidden": 2048, "precision": "bf16", "quantize": "fp8"},
        {"tokens": 64, "experts": 128, "top_k": 8, "hidden": 2048, "precision": "bf16"},
    ],
    "moe.combine": [
        {"tokens": 2048, "experts": 128, "top_k": 8, "hidden": 2048, "precision": "bf16"},
        {"tokens": 64, "experts": 128, "top_k": 8, "hidden": 2048, "precision": "bf16"},
    ],
    "moe.layer": [
        {"tokens": 16, "experts": 128, "top_k": 8, "hidden": 2048, "inter": 768, "precision": "bf16"},
        {"tokens": 512, "experts": 128, "top_k": 8, "hidden": 2048, "inter": 768, "precision": "bf16"},
    ],
    "linear.gemm": [
        {"tokens": 2040, "out_features": 2048, "in_features": 2048, "precision": "fp32"},
        {"tokens": 2040, "out_features": 2048, "in_features": 2048, "precision": "bf16"},
        # The projection into 32 query and 4 + 4 key and value heads, and the vocabulary, while decoding.
        {"tokens": 64, "out_features": 5120, "in_features": 2048, "precision": "bf16"},
        {"tokens": 4, "out_features": 151_936, "in_features": 2048, "precision": "bf16"},
    ],
    "attention.decode": [
        {"batch": 8, "context": 4096, "q_heads": 32, "kv_heads": 4, "head_dim": 128, "precision": "bf16"},
        {"batch": 8, "context": 4096, "q_heads": 32, "kv_heads": 4, "head_dim": 128, "precision": "fp32"},
        {
            "batch": 16,
            "context": 8192,
            "q_heads": 32,
            "kv_heads": 4,
            "head_dim": 128,
            "precision": "bf16",
            "lengths": "lognormal",
        },
        {"batch": 1, "context": 32_768, "q_heads": 32, "kv_heads": 4, "head_dim": 128, "precision": "bf16"},
    ],
    "attention.prefill": [
        {"length": 2048, "q_heads": 16, "kv_heads": 16, "head_dim": 128, "precision": "fp32"},
        {"length": 2048, "q_heads": 32, "kv_heads": 4, "head_dim": 128, "precision": "bf16"},
        # A chunk after a cached prefix.
        {"length": 512, "prefix": 7680, "q_heads": 32, "kv_heads": 4, "head_dim": 128, "precision": "bf16"},
        {
            "batch": 8,
            "length": 2048,
            "q_heads": 32,
            "kv_heads": 4,
            "head_dim": 128,
            "precision": "bf16",
            "lengths": "lognormal",
        },
        # gpt-oss: 64 query and 8 key heads of 64, a window of 128 on every other layer, sinks.
        {
            "length": 4096,
            "q_heads": 64,
            "kv_heads": 8,
            "head_dim": 64,
            "precision": "bf16",
            "window": 128,
            "sinks": True,
        },
    ],
    "attention.prefill_backward": [
        {"length": 2048, "q_heads": 16, "kv_heads": 16, "head_dim": 128, "precision": "fp32"},
        {"length": 1024, "q_heads": 32, "kv_heads": 4, "head_dim": 128, "precision": "bf16"},
    ],
    "attention.kv_append": [
        {"batch": 8, "new_tokens": 1024, "context": 4096, "kv_heads": 4, "head_dim": 128, "precision": "bf16"},
        {"batch": 64, "new_tokens": 1, "context": 1024, "kv_heads": 4, "head_dim": 128, "precision": "bf16"},
    ],
    # Nemotron 3 Ultra: 256 heads of 64 with a state of 128, in 8 groups.
    "ssm.mamba2_decode": [
        {"batch": 8, "heads": 256, "head_dim": 64, "state": 128, "groups": 8, "precision": "bf16"},
    ],
    "sampling.logprob": [
        {"rows": 64, "vocab": 151_936, "precision": "fp32"},
        {"rows": 128, "vocab": 151_936, "precision": "bf16"},
    ],
    "sampling.top_k_top_p": [
        {"rows": 64, "vocab": 151_936, "top_k": 50, "top_p": 0.95},
        {"rows": 64, "vocab": 151_936, "top_k": 0, "top_p": 0.95},
        {"rows": 64, "vocab": 151_936, "top_k": 0, "top_p": 0.95, "logits": "flat"},
        {
            "rows": 64,
            "vocab": 151_936,
            "precision": "bf16",
            "temperature": 0.7,
            "top_k": 20,
            "top_p": 0.8,
            "presence": 1.5,
            "seen": 1024,
        },
    ],
    "sampling.speculative_verify": [
        {"batch": 16, "draft_length": 4, "branches": 1, "vocab": 151_936, "acceptance": 0.8},
        {"batch": 8, "draft_length": 2, "branches": 2, "vocab": 151_936, "acceptance": 0.6},
    ],
    "sampling.fused_logprob": [
        {"rows": 128, "width": 2048, "vocab": 151_936, "precision": "fp32"},
        {"rows": 128, "width": 2048, "vocab": 32_768, "precision": "fp32", "backward": True},
    ],
    "train.rmsnorm": [
        {"tokens": 8192, "hidden": 2048, "precision": "bf16"},
        {"tokens": 8192, "hidden": 2048, "precision": "bf16", "direction": "backward"},
        {"tokens": 4096, "hidden": 2048, "precision": "fp32"},
        {"tokens": 4096, "hidden": 2048, "precision": "fp32", "direction": "backward"},
    ],
    "train.adamw": [
        {"parameters": 8_388_608},
        {"parameters": 8_388_608, "gradient": "fp32"},
    ],
    "rl.policy_loss": [
        {"sequences": 512, "length": 8192},
        {"sequences": 512, "length": 8192, "kl": 0.001},
        {"sequences": 512, "length": 8192, "lengths": "lognormal"},
        # Bounds of the GSPO paper, section 5.1.
        {
            "sequences": 512,
            "length": 8192,
            "algorithm": "gspo",
            "normalization": "sequence",
            "clip_low": 3e-4,
            "clip_high": 4e-4,
            "drift": 0.02,
        },
    ],
    "sync.quantize": [
        {"rows": 8192, "columns": 2048},
        {"rows": 8192, "columns": 2048, "format": "nvfp4", "amax": "given"},
        {"rows": 8192, "columns": 2048, "format": "nvfp4"},
    ],
    "rl.advantages": [
        {"groups": 64, "group_size": 8, "kind": "gae", "length": 8192},
        {"groups": 4096, "group_size": 16, "kind": "group"},
    ],
    # A token's row, a layer's tokens, a bucket of gradients.
    "comm.all_reduce": [{"ranks": 2, "elements": n} for n in (2048, 262_144, 8_388_608)],
    "comm.all_gather": [{"ranks": 2, "elements": n} for n in (2048, 8_388_608)],
    "comm.all_to_all": [{"ranks": 2, "elements": n} for n in (2048, 8_388_608)],
    "comm.broadcast": [{"ranks": 2, "elements": n} for n in (2048, 8_388_608)],
    "sync.delta": [
        {"weights": 16_777_216, "changed": 0.01},
        {"weights": 16_777_216, "changed": 0.01, "run": 2048},
    ],
}
_QUICK = ("moe.routing", "attention.decode", "sampling.logprob")
# Families of operators by suite: what stands in for attention is measured with it.
_FAMILIES = {
    "moe": ("moe",),
    "attention": ("attention", "ssm"),
    **{name: (name,) for name in ("sampling", "train", "linear", "sync", "comm")},
}


class UnknownSuiteError(LookupError):
    """A name that no suite has; the message gives the nearest ones."""


def suite_names() -> list[str]:
    """Return the names of the suites.

    ``quick``, one per family of operators (state-space models stand with attention), ``rl`` with all of them, and
    ``silicon`` with shapes of the measured tables.
    """
    return ["quick", *_FAMILIES, "rl", "silicon"]


def suite(name: str) -> list[tuple[str, Workload]]:
    """Return the operators and workloads of a suite.

    Raises
    ------
    UnknownSuiteError
        If there is none of that name.
    """
    if name not in suite_names():
        near = difflib.get_close_matches(name, suite_names(), n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(suite_names())}"
        raise UnknownSuiteError(f"unknown suite {name!r}; {hint}")
    if name == "quick":
        return [(operator, make_workload(operator, WORKLOADS[operator][0])) for operator in _QUICK]
    if name == "silicon":
        return [(operator, make_workload(operator, fields)) for operator in SILICON for fields in SILICON[operator]]
    chosen = [op for op in WORKLOADS if name == "rl" or op.split(".")[0] in _FAMILIES[name]]
    return [(op, make_workload(op, fields)) for op in chosen if op in operator_names() for fields in WORKLOADS[op]]


def operator_workloads(operator: str) -> list[Workload]:
    """Return the workloads of one operator over all suites.

    Raises
    ------
    UnknownSuiteError
        If no suite has workloads of the operator, as for a user's own; name some then.
    """
    if not WORKLOADS.get(operator):
        get_operator(operator)
        raise UnknownSuiteError(f"no suite has workloads of {operator}; name one with --workload field=value,...")
    return [make_workload(operator, fields) for fields in WORKLOADS[operator]]
