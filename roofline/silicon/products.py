"""Map tables of matrix products and of quantisation passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .columns import ACTIVATION, BYTES, RATE, known, label, numbers, short

if TYPE_CHECKING:
    import pandas as pd

# Heads of DeepSeek-V3's latent attention: products of 128 x 512 per head.
_HEAD_DIM, _LATENT = 128, 512


def map_gemm(table: pd.DataFrame) -> pd.DataFrame:
    """``C[m, n] = A[m, k] @ B[k, n]``, output in bf16; weights and activations in the named format."""
    table = known(table, "gemm_dtype")
    m, n, k = numbers(table, "m", "n", "k")
    weight, activation = table.gemm_dtype.map(BYTES).astype(float), table.gemm_dtype.map(ACTIVATION).astype(float)
    kind = short(table.gemm_dtype)
    return table.assign(
        operator="linear.gemm",
        operator_class="gemm." + kind,
        precision=kind,
        rate=table.gemm_dtype.map(RATE),
        workload=label(table, {"m": "m", "n": "n", "k": "k"}),
        flops=2 * m * n * k,
        read_bytes=n * k * weight + m * k * activation,
        write_bytes=2 * m * n,
    )


def map_latent_products(table: pd.DataFrame) -> pd.DataFrame:
    """Products of every head with its part of the latent projection, ``[tokens, 128] @ [128, 512]`` or back."""
    table = known(table, "bmm_dtype")
    tokens, heads = numbers(table, "num_tokens", "num_heads")
    stored = table.bmm_dtype.map(BYTES).astype(float)
    into = table.op_name.eq("mla_gen_pre")
    inputs, outputs = (into * _HEAD_DIM + ~into * _LATENT), (into * _LATENT + ~into * _HEAD_DIM)
    return table.assign(
        operator="attention.latent_projection",
        operator_class="mla",
        precision=short(table.bmm_dtype),
        rate=table.bmm_dtype.map(RATE),
        workload=label(table, {"part": "op_name", "tokens": "num_tokens", "heads": "num_heads"}),
        flops=2 * tokens * heads * _HEAD_DIM * _LATENT,
        read_bytes=heads * (_HEAD_DIM * _LATENT * stored + tokens * inputs * stored),
        write_bytes=2 * heads * tokens * outputs,
    )


def map_scaling(table: pd.DataFrame) -> pd.DataFrame:
    """Quantise ``[m, k]`` from bf16 to fp8 with a given scale: two bytes read, one written per number."""
    return _pass(table, "quantize.scale", read=2.0, written=1.0)


def map_scales(table: pd.DataFrame) -> pd.DataFrame:
    """Find the scales of ``[m, k]`` in bf16: two bytes read per number."""
    return _pass(table, "quantize.find_scale", read=2.0, written=0.0)


def _pass(table: pd.DataFrame, operator: str, *, read: float, written: float) -> pd.DataFrame:
    m, k = numbers(table, "m", "k")
    return table.assign(
        operator=operator,
        operator_class="streaming",
        precision=table.quant_dtype,
        rate="vector.fp32",
        workload=label(table, {"m": "m", "k": "k"}),
        vector_flops=2 * m * k,
        read_bytes=read * m * k,
        write_bytes=written * m * k,
    )
