"""Map tables of attention: over a context, of one new token, of an encoder, and latent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .columns import ACTIVATION, BYTES, RATE, known, label, numbers, short

if TYPE_CHECKING:
    import pandas as pd

# DeepSeek-V3: heads of 128 + 64 rotary dimensions, values of 128, a latent of 512 + 64 per token, hidden size 7168.
_NOPE, _ROPE, _VALUE, _LATENT, _QUERY_LATENT, _HIDDEN = 128, 64, 128, 512, 1536, 7168
_SOFTMAX_FLOPS = 4


def _seen(new: pd.Series, before: pd.Series, window: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return the query-key pairs of a causal mask and the keys that some query sees, per sequence and head."""
    total = new + before
    pairs = new * before + new * (new + 1) / 2
    keys = total
    limited = window.gt(0) & window.lt(total)
    # With a window w, the query at position p sees min(p, w) keys.
    short = np.clip(window - before, 0, new)
    within = short * before + short * (short + 1) / 2 + (new - short) * window
    pairs = pairs.where(~limited, within)
    keys = keys.where(~limited, np.minimum(total, window + new - 1))
    return pairs, keys


def _attention(table: pd.DataFrame, operator: str, fields: dict[str, str]) -> pd.DataFrame:
    table = known(table, "attn_dtype")
    table = table[table.kv_cache_dtype.isin(list(BYTES))]
    batch, new, before, heads, kv, dim = numbers(
        table, "batch_size", "isl", "step", "num_heads", "num_key_value_heads", "head_dim"
    )
    kv = kv.where(kv > 0, heads)
    window = table["window_size"].astype(float) if "window_size" in table else new * 0
    pairs, keys = _seen(new, before, window)
    cache = table.kv_cache_dtype.map(BYTES).astype(float)
    scores = batch * heads * pairs
    precision = short(table.attn_dtype)
    stored = short(table.kv_cache_dtype)
    table = table.assign(context=table.isl + table.step, window=window.astype(int), kv_cache=stored)
    return table.assign(
        operator=operator,
        operator_class=operator,
        precision=precision.where(precision == stored, precision + "/kv " + stored),
        rate=table.attn_dtype.map(RATE),
        workload=label(table, fields),
        flops=4 * scores * dim,
        vector_flops=_SOFTMAX_FLOPS * scores,
        exponentials=scores,
        read_bytes=2 * batch * kv * keys * dim * cache + 2 * batch * heads * new * dim,
        write_bytes=2 * batch * heads * new * dim,
    )


_HEADS = {"q_heads": "num_heads", "kv_heads": "num_key_value_heads", "head_dim": "head_dim", "window": "window"}


def map_decode(table: pd.DataFrame) -> pd.DataFrame:
    """One new token per sequence over a cache of equal lengths."""
    return _attention(table, "attention.decode", {"batch": "batch_size", "context": "context", **_HEADS})


def map_prefill(table: pd.DataFrame) -> pd.DataFrame:
    """Causal attention over new tokens, after ``prefix`` cached ones."""
    return _attention(table, "attention.prefill", {"batch": "batch_size", "tokens": "isl", "prefix": "step", **_HEADS})


def map_encoder(table: pd.DataFrame) -> pd.DataFrame:
    """Attention without a mask, as encoders of images have it."""
    table = known(table, "attn_dtype")
    batch, length, heads, dim = numbers(table, "batch_size", "isl", "num_heads", "head_dim")
    scores = batch * heads * length * length
    fields = {"batch": "batch_size", "tokens": "isl", "heads": "num_heads", "head_dim": "head_dim"}
    return table.assign(
        operator="attention.encoder",
        operator_class="attention.encoder",
        precision=short(table.attn_dtype),
        rate=table.attn_dtype.map(RATE),
        workload=label(table, fields),
        flops=4 * scores * dim,
        vector_flops=_SOFTMAX_FLOPS * scores,
        exponentials=scores,
        read_bytes=6 * batch * heads * length * dim,
        write_bytes=2 * batch * heads * length * dim,
    )


_LATENT_FIELDS = {"batch": "batch_size", "tokens": "isl", "prefix": "step", "heads": "num_heads"}


def map_latent_prefill(table: pd.DataFrame) -> pd.DataFrame:
    """Latent attention over a context, keys and values expanded per head."""
    return _latent(table, "attention.latent_prefill", decode=False)


def map_latent_decode(table: pd.DataFrame) -> pd.DataFrame:
    """Latent attention of one token, absorbed: every head reads the one latent cache."""
    return _latent(table, "attention.latent_decode", decode=True)


def _latent(table: pd.DataFrame, operator: str, *, decode: bool) -> pd.DataFrame:
    table = known(table, "mla_dtype")
    table = table[table.kv_cache_dtype.isin(list(BYTES))]
    batch, new, before, heads = numbers(table, "batch_size", "isl", "step", "num_heads")
    pairs, keys = _seen(new, before, new * 0)
    cache = table.kv_cache_dtype.map(BYTES).astype(float)
    scores, rows = batch * heads * pairs, batch * heads * new
    if decode:
        flops = 2 * scores * (2 * _LATENT + _ROPE)
        read = batch * keys * (_LATENT + _ROPE) * cache + 2 * rows * (_LATENT + _ROPE)
        write = 2 * rows * _LATENT
    else:
        flops = 2 * scores * (_NOPE + _ROPE + _VALUE)
        read = 2 * batch * keys * heads * (_NOPE + _ROPE + _VALUE) + 2 * rows * (_NOPE + _ROPE)
        write = 2 * rows * _VALUE
    table = table.assign(
        operator=operator,
        operator_class="mla",
        precision=short(table.mla_dtype) + "/kv " + short(table.kv_cache_dtype),
        rate=table.mla_dtype.map(RATE),
        workload=label(table, _LATENT_FIELDS),
        flops=flops,
        vector_flops=_SOFTMAX_FLOPS * scores,
        exponentials=scores,
        read_bytes=read,
        write_bytes=write,
    )
    if "gemm_type" not in table:
        return table
    return _with_projections(table[table.gemm_type.isin(list(RATE))])


def _with_projections(table: pd.DataFrame) -> pd.DataFrame:
    """Add the projections around the attention, which a whole module's time includes."""
    batch, new, heads = numbers(table, "batch_size", "isl", "num_heads")
    stored, activation = table.gemm_type.map(BYTES).astype(float), table.gemm_type.map(ACTIVATION).astype(float)
    per_head = _QUERY_LATENT * (_NOPE + _ROPE) + _LATENT * (_NOPE + _VALUE) + _VALUE * _HIDDEN
    weights = _HIDDEN * (_QUERY_LATENT + _LATENT + _ROPE) + heads * per_head
    tokens = batch * new
    return table.assign(
        operator=table.operator + "_module",
        precision=table.precision + "/gemm " + short(table.gemm_type),
        # The products of a module run at the projections' rate as far as their share goes; the narrower one is
        # taken, which makes the roof the lower one.
        rate=table.gemm_type.map(RATE),
        flops=table.flops + 2 * tokens * weights,
        read_bytes=table.read_bytes + weights * stored + tokens * _HIDDEN * activation,
        write_bytes=table.write_bytes + 2 * tokens * _HIDDEN,
        launches=8,
    )
