"""Which layouts a planner looks at: GPU counts, splits between generation and training, and parallelism of both."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Model
from ..sections import Cluster, Rollout, Train
from ..system import System

_MOST_EXPERT = 64
_MOST_CONTEXT = 8
# Shares of the GPUs that generate, where generation has its own.
_SHARES = (0.25, 0.375, 0.5, 0.625, 0.75)


def gpu_counts(system: System, most: int) -> list[int]:
    """Return the counts tried: powers of two, and whole scale-up domains that are not one."""
    counts = {2**k for k in range(most.bit_length()) if 2**k <= most}
    if system.domain & (system.domain - 1):
        counts |= {system.domain * 2**k for k in range(most.bit_length()) if system.domain * 2**k <= most}
    return sorted(counts)


def clusters(gpus: int, *, split: bool) -> list[Cluster]:
    """Return the ways to divide GPUs: all of them in turn, or some that only generate."""
    if not split:
        return [Cluster(gpus=gpus, placement="colocated", rollout_gpus=None)]
    sizes = sorted({round(gpus * share) for share in _SHARES} - {0, gpus})
    return [Cluster(gpus=gpus, placement="split", rollout_gpus=size) for size in sizes if size < gpus]


def rollout_layouts(base: Rollout, model: Model, generating: int, domain: int) -> Iterator[Rollout]:
    """Yield tensor and expert parallelism of a replica; tensor stays within the scale-up domain."""
    for tensor in _powers(min(domain, generating)):
        if model.attention.q_heads % tensor:
            continue
        for expert in _expert(model, generating):
            if generating % max(tensor, expert) or (expert > 1 and expert % tensor):
                continue
            yield base.model_copy(update={"tensor": tensor, "expert": expert})


def train_layouts(base: Train, model: Model, training: int, domain: int) -> Iterator[Train]:
    """Yield tensor, pipeline, context and expert parallelism of the trainer."""
    layers = model.attention.layers + (model.recurrent.layers if model.recurrent else 0)
    for tensor in _powers(min(domain, 8, training)):
        if model.attention.q_heads % tensor:
            continue
        for expert in _expert(model, training):
            for pipeline in _powers(min(16, layers, training // tensor)):
                if expert > 1 and training % (expert * pipeline):
                    continue
                for context in _powers(min(_MOST_CONTEXT, training // (tensor * pipeline))):
                    if training % (tensor * pipeline * context):
                        continue
                    sizes = {"tensor": tensor, "pipeline": pipeline, "context": context, "expert": expert}
                    yield base.model_copy(update=sizes)


def _powers(most: int) -> list[int]:
    return [2**k for k in range(max(1, most).bit_length()) if 2**k <= most]


def _expert(model: Model, gpus: int) -> list[int]:
    if model.moe is None:
        return [1]
    return [e for e in _powers(min(_MOST_EXPERT, gpus)) if model.moe.experts % e == 0]
