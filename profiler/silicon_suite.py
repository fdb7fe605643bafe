"""The suite ``silicon``: shapes that the measured tables of GPUs hold, for testing projections from this machine."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

# Layers of models between 1 and 70 billion parameters; (out, in).
_LAYERS = ((2048, 2048), (5120, 2048), (4096, 4096), (8192, 1024))
# Query heads, key heads, numbers per head.
_HEADS = ((32, 8, 128), (64, 8, 64))

SILICON: Mapping[str, list[dict[str, Any]]] = {
    "linear.gemm": [
        {"tokens": tokens, "out_features": out, "in_features": inside, "precision": "bf16"}
        for tokens, (out, inside) in product((1, 16, 128, 1024), _LAYERS)
    ],
    "attention.decode": [
        {"batch": batch, "context": context, "q_heads": q, "kv_heads": kv, "head_dim": dim, "precision": "bf16"}
        for (batch, context), (q, kv, dim) in product(
            ((1, 4096), (1, 32_768), (8, 1024), (8, 8192), (64, 1024), (64, 4096)), _HEADS
        )
    ],
    # Qwen3-30B-A3B and Qwen3-Next-80B-A3B without its shared expert.
    "moe.expert_gemm": [
        {"tokens": tokens, "hidden": 2048, "inter": inter, "top_k": top_k, "experts": experts, "precision": "bf16"}
        for tokens, (inter, top_k, experts) in product((1, 16, 128, 512), ((768, 8, 128), (512, 8, 256)))
    ],
}
