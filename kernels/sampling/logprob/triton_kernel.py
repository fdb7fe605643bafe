"""Triton: each program reduces one chunk of a row; a second small kernel merges the chunks.

With enough rows a row is one chunk, and the first kernel writes the result itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import triton

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...triton_support import KernelSpec, gpu_target
from .operator import Logprob, check_tokens
from .triton_reduction import logprob_chunk, logprob_merge

if TYPE_CHECKING:
    import torch

_WARPS = 8
_LOAD_BYTES = 16  # the widest load of a thread
_VALUES_PER_THREAD = 32
_VALUES_PER_THREAD_LISTING = 8  # keys of 64 bits take twice the registers; 16 of them spill on sm_90 and sm_120
_PROGRAMS_PER_SM = 4
_LOG2_E = math.log2(math.e)


def _tile(element_bytes: int, threads_per_warp: int, listing: bool) -> dict[str, int]:
    """Return the tile in which a thread's loads are widest and axis 0 stays within a thread."""
    per_load = _LOAD_BYTES // element_bytes
    values = _VALUES_PER_THREAD_LISTING if listing else _VALUES_PER_THREAD
    return {"LANES": per_load * threads_per_warp * _WARPS, "UNROLL": values // per_load}


def _pieces(rows: int, vocab: int, tile: int, device: str) -> int:
    """Return how many chunks to cut a row into so that the device has programs enough."""
    import torch

    # In the interpreter several, so that the merge is tested.
    processors = 1 if device == "cpu" else torch.cuda.get_device_properties(device).multi_processor_count
    wanted = processors * _PROGRAMS_PER_SM
    return max(1, min(-(-wanted // rows), -(-vocab // tile)))


def _padded(top_n: int) -> int:
    return max(2, triton.next_power_of_2(top_n)) if top_n else 1


@implementation("sampling.logprob", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Split the vocabulary where rows are few; all buffers are made here."""
    import torch

    w = inputs.workload
    assert isinstance(w, Logprob)
    check_tokens(inputs)
    stored = inputs.arrays["logits"]
    bf16 = stored.dtype == np.uint16
    host = torch.from_numpy(stored.view(np.int16)).view(torch.bfloat16) if bf16 else torch.from_numpy(stored)
    logits, token = host.to(device), torch.from_numpy(inputs.arrays["token"]).to(device)
    shape = _tile(stored.itemsize, 64 if torch.version.hip else 32, w.top_n > 0)
    tile = shape["LANES"] * shape["UNROLL"]
    pieces = _pieces(w.rows, w.vocab, tile, device)
    # Chunks of whole tiles keep every load aligned.
    chunk = -(-w.vocab // pieces // tile) * tile if pieces > 1 else w.vocab
    pieces = -(-w.vocab // chunk)
    padded = _padded(w.top_n)

    def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    out = {"logprob": empty(w.rows), "entropy": empty(w.rows), "top_logprob": empty(w.rows, w.top_n)}
    out["top_token"] = empty(w.rows, w.top_n, dtype=torch.int64)
    partial = (empty(w.rows, pieces), empty(w.rows, pieces, 2), empty(w.rows, pieces, padded, dtype=torch.uint64))
    pointers = (logits, token, *out.values(), *partial)
    scale = _LOG2_E / w.temperature
    flags: dict[str, Any] = {"ENTROPY": w.entropy, "TOP": w.top_n, "PADDED": padded}
    wanted = ["logprob"] + ["entropy"] * w.entropy + ["top_logprob", "top_token"] * (w.top_n > 0)

    # The launch syntax is beyond type checkers.
    reduce_chunks: Any = logprob_chunk
    merge_chunks: Any = logprob_merge

    def run() -> None:
        reduce_chunks[(w.rows, pieces)](
            *pointers,
            w.vocab,
            chunk,
            scale,
            SPLIT=pieces > 1,
            **shape,
            **flags,
            num_warps=_WARPS,
        )
        if pieces > 1:
            power = triton.next_power_of_2(pieces)
            merge_chunks[(w.rows,)](*pointers, w.vocab, pieces, scale, PIECES=power, **flags, num_warps=1)
        if w.rows_per_sequence > 1:
            out["sequence_logprob"] = out["logprob"].view(-1, w.rows_per_sequence).sum(-1)

    def output() -> Arrays:
        names = wanted + ["sequence_logprob"] * (w.rows_per_sequence > 1)
        return {name: out[name].cpu().numpy() for name in names}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return both kernels as launched for few rows, in fp32 and bf16, with and without the listing of tokens."""
    specs = []
    for element in ("fp32", "bf16"):
        for top_n in (0, 20):
            pointers = {
                "logits": f"*{element}",
                "token": "*i64",
                "logprob": "*fp32",
                "entropy": "*fp32",
                "top_logprob": "*fp32",
                "top_token": "*i64",
                "tops": "*fp32",
                "sums": "*fp32",
            }
            flags = {"ENTROPY": True, "TOP": top_n, "PADDED": _padded(top_n)}
            name = f"{element}_top{top_n}" if top_n else element
            chunk = {**pointers, "keys_out": "*u64", "vocab": "i32", "chunk": "i32", "scale": "fp32"}
            merge = {**pointers, "keys_in": "*u64", "vocab": "i32", "pieces": "i32", "scale": "fp32"}
            shape = _tile(4 if element == "fp32" else 2, gpu_target(target).warp_size, top_n > 0)
            split = {**shape, "SPLIT": True, **flags}
            specs += [
                KernelSpec(f"chunk_{name}", logprob_chunk, chunk, split, _WARPS, 2, ("vocab", "chunk")),
                KernelSpec(f"merge_{name}", logprob_merge, merge, {"PIECES": 16, **flags}, 1, 2, ("vocab",)),
            ]
    return specs
