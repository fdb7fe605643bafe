"""Map tables of expert layers, of recurrent mixers and of collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .columns import ACTIVATION, BYTES, RATE, known, label, numbers, short

if TYPE_CHECKING:
    import pandas as pd

_SCAN_CHUNK = 64


def map_experts(table: pd.DataFrame) -> pd.DataFrame:
    """Gated expert layers without expert parallelism (with it, the collector sends remote ids to expert 0).

    Experts read are ``E (1 - (1 - k/E)^tokens)``, as if tokens chose evenly; ``distribution`` is kept in the
    workload. Layers without a gate have two products, gated ones three.
    """
    table = known(table[table.moe_ep_size == 1], "moe_dtype")
    tokens, hidden, inner, top, experts, shards = numbers(
        table, "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size"
    )
    inner = inner / shards
    products = 3.0 - table.kernel_source.astype(str).str.contains("nongated").astype(float)
    stored, activation = table.moe_dtype.map(BYTES).astype(float), table.moe_dtype.map(ACTIVATION).astype(float)
    active = experts * -np.expm1(tokens * np.log1p(-np.minimum(top / experts, 1 - 1e-9)))
    by_triton = table.kernel_source.astype(str).str.contains("triton|vllm_fused_moe", regex=True)
    by_triton &= ~table.kernel_source.astype(str).str.contains("trtllm")
    fields = {"tokens": "num_tokens", "hidden": "hidden_size", "inter": "inter_size", "top_k": "topk"}
    fields |= {"experts": "num_experts", "tp": "moe_tp_size", "distribution": "distribution"}
    return table.assign(
        operator="moe.experts",
        operator_class=np.where(by_triton, "moe.experts triton", "moe.experts other"),
        precision=short(table.moe_dtype),
        rate=table.moe_dtype.map(RATE),
        workload=label(table, fields),
        flops=2 * products * tokens * top * hidden * inner,
        vector_flops=4 * tokens * top * inner,
        exponentials=tokens * top * inner,
        read_bytes=products * active * hidden * inner * stored + tokens * hidden * activation,
        write_bytes=2 * tokens * hidden,
        launches=3,
    )


def map_mixer(table: pd.DataFrame) -> pd.DataFrame:
    """Gated delta rule (and its per-channel form): its short convolution, its chunked scan or one recurrent step.

    A scan over chunks of 64 tokens costs per token and head ``2 x 64 (Dk + Dv)`` within the chunk and
    ``4 Dk Dv`` with the state; the state is held in fp32 and crosses memory once per sequence.
    """
    batch, tokens = table.batch_size.astype(float), table.num_tokens.astype(float)
    seq = table.seq_len.astype(float).clip(lower=1)
    # In generation the table gives the batch alone, in context the tokens of all sequences.
    tokens = np.maximum(tokens.fillna(0), batch * seq.fillna(1))
    k_heads, k_dim, v_heads, v_dim, taps = numbers(
        table, "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim", "d_conv"
    )
    channels = 2 * k_heads * k_dim + v_heads * v_dim
    convolution = table.kernel_source.astype(str).str.contains("conv")
    state = batch * v_heads * k_dim * v_dim * 4
    step = table.phase.astype(str).ne("context")
    scan = (
        tokens
        * v_heads
        * np.where(step, 4 * k_dim * v_dim + 2 * k_dim * v_dim, 4 * k_dim * v_dim + 2 * _SCAN_CHUNK * (k_dim + v_dim))
    )
    fields = {"batch": "batch_size", "seq": "seq_len", "tokens": "num_tokens", "k_heads": "num_k_heads"}
    fields |= {"v_heads": "num_v_heads", "d_model": "d_model", "phase": "phase"}
    return table.assign(
        operator=np.where(convolution, "recurrent.convolution", np.where(step, "recurrent.step", "recurrent.scan")),
        operator_class="linear_attention",
        precision="bf16",
        rate="matrix.bf16",
        workload=label(table, fields),
        flops=np.where(convolution | step, 0.0, scan),
        vector_flops=np.where(convolution, 2 * tokens * channels * taps, np.where(step, scan, 0.0)),
        exponentials=np.where(convolution, tokens * channels, tokens * v_heads),
        read_bytes=2 * tokens * channels + np.where(convolution, 0.0, state),
        write_bytes=np.where(convolution, 2 * tokens * channels, 2 * tokens * v_heads * v_dim + state * step),
    )


def map_mamba(table: pd.DataFrame) -> pd.DataFrame:
    """The short convolution of Mamba-2; other kernels of its tables are not mapped."""
    table = table[table.kernel_source.astype(str).str.contains("conv")]
    batch, seq = table.batch_size.astype(float), table.seq_len.astype(float).clip(lower=1)
    tokens = np.maximum(table.num_tokens.astype(float).fillna(0), batch * seq.fillna(1))
    heads, dim, groups, state, taps = numbers(table, "nheads", "head_dim", "n_groups", "d_state", "d_conv")
    channels = heads * dim + 2 * groups * state
    fields = {"batch": "batch_size", "seq": "seq_len", "tokens": "num_tokens", "heads": "nheads", "groups": "n_groups"}
    fields |= {"state": "d_state", "d_model": "d_model", "phase": "phase"}
    return table.assign(
        operator="recurrent.convolution",
        operator_class="linear_attention",
        precision="bf16",
        rate="vector.fp32",
        workload=label(table, fields),
        vector_flops=2 * tokens * channels * taps,
        exponentials=tokens * channels,
        read_bytes=2 * tokens * channels,
        write_bytes=2 * tokens * channels,
    )


def map_collective(table: pd.DataFrame) -> pd.DataFrame:
    """NCCL over one node's links; bytes are what each GPU sends in a ring (``message_size`` counts numbers)."""
    table = table[table.nccl_dtype.isin(list(BYTES))]
    ranks, size = numbers(table, "num_gpus", "message_size")
    stored = table.nccl_dtype.map(BYTES).astype(float)
    rounds = np.where(table.op_name.eq("all_reduce"), 2.0, 1.0)
    sent = rounds * size * stored * (ranks - 1) / ranks
    return table.assign(
        operator="collective." + table.op_name.astype(str),
        operator_class="collective",
        precision=short(table.nccl_dtype),
        rate="vector.fp32",
        workload=label(table, {"gpus": "num_gpus", "numbers": "message_size"}),
        read_bytes=size * stored,
        write_bytes=size * stored,
        link_bytes=sent,
    )
