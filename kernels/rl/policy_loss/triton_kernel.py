"""Triton: four launches, deterministic, with no atomics; nothing comes back to the host in between."""

from __future__ import annotations

from typing import Any

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from ...triton_support import KernelSpec
from .operator import NORMALIZATIONS, PolicyLoss
from .triton_tokens import policy_rows, policy_tokens, policy_total, policy_weights

_BLOCK, _WARPS = 1024, 4
_ONE_PROGRAM = {"BLOCK": 2048}
_ONE_PROGRAM_WARPS = 8


@implementation("rl.policy_loss", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """All buffers are made here."""
    import torch

    w = inputs.workload
    assert isinstance(w, PolicyLoss)
    t = {name: to_tensor(array, device) for name, array in inputs.arrays.items()}
    blocks = -(-w.length // _BLOCK)

    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.float32, device=device)

    counts, means, weight, partial = (
        empty(w.sequences),
        empty(w.sequences),
        empty(w.sequences),
        empty(w.sequences * blocks),
    )
    out = {"loss": empty(1), "grad": empty(w.sequences, w.length)}
    gspo, normalization = w.algorithm == "gspo", NORMALIZATIONS.index(w.normalization)
    limits = (*w.bounds(), 1 - w.clip_low, 1 + w.clip_high, w.kl)
    # The launch syntax is beyond type checkers.
    rows: Any = policy_rows
    weights: Any = policy_weights
    tokens: Any = policy_tokens
    total: Any = policy_total
    logprob, old, mask = t["logprob"], t["old_logprob"], t["mask"]
    pointers = (logprob, old, t.get("ref_logprob", old), mask, t["advantage"], means, weight, partial, out["grad"])

    def run() -> None:
        rows[(w.sequences,)](logprob, old, mask, counts, means, w.length, BLOCK=_BLOCK, GSPO=gspo, num_warps=_WARPS)
        one: dict[str, Any] = {**_ONE_PROGRAM, "num_warps": _ONE_PROGRAM_WARPS}
        weights[(1,)](counts, weight, w.sequences, w.length, NORMALIZATION=normalization, **one)
        shape: dict[str, Any] = {"BLOCK": _BLOCK, "GSPO": gspo, "KL": w.kl > 0, "num_warps": _WARPS}
        tokens[(w.sequences, blocks)](*pointers, w.length, *limits, **shape)
        total[(1,)](partial, out["loss"], w.sequences * blocks, **one)

    def output() -> Arrays:
        return {name: to_array(value) for name, value in out.items()}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the kernels for GRPO with and without KL and for GSPO."""
    specs = []
    block = {"BLOCK": _BLOCK}
    floats = dict.fromkeys(("low", "high", "lowest", "highest", "kl"), "fp32")
    names = ("logprob", "old", "ref", "advantage", "means", "weight", "partial", "grad")
    tokens = {**dict.fromkeys(names, "*fp32"), "mask": "*u8", "length": "i32", **floats}
    rows = {**dict.fromkeys(("logprob", "old", "counts", "means"), "*fp32"), "mask": "*u8", "length": "i32"}
    for name, gspo, kl in (("grpo", False, False), ("grpo_kl", False, True), ("gspo", True, False)):
        options = {**block, "GSPO": gspo, "KL": kl}
        specs.append(KernelSpec(f"tokens_{name}", policy_tokens, tokens, options, _WARPS, 2, ("length",)))
        if not kl:
            options = {**block, "GSPO": gspo}
            specs.append(KernelSpec(f"rows_{name}", policy_rows, rows, options, _WARPS, 2, ("length",)))
    weights = {"counts": "*fp32", "weight": "*fp32", "rows": "i32", "length": "i32"}
    options = {**_ONE_PROGRAM, "NORMALIZATION": 1}
    total = {"partial": "*fp32", "loss": "*fp32", "number": "i32"}
    return [
        *specs,
        KernelSpec("weights", policy_weights, weights, options, _ONE_PROGRAM_WARPS, 2),
        KernelSpec("total", policy_total, total, dict(_ONE_PROGRAM), _ONE_PROGRAM_WARPS, 2),
    ]
