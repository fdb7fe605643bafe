"""Cost per token against interactivity: the cheapest layout of one replica that is quick enough for each user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..generate import prefill_seconds, rollout_memory
from ..phase import DoesNotFitError
from ..scenario import Scenario
from .quick import Quick

_BATCHES = tuple(2**k for k in range(13))


@dataclass(frozen=True)
class Point:
    """One way to serve: what a user sees, what a million generated tokens cost, and how."""

    tokens_per_s_per_user: float
    tokens_per_s_per_gpu: float
    usd_per_million_tokens: float
    tensor: int
    expert: int
    sequences: int


def points(scenario: Scenario, system: str, usd_per_gpu_hour: float) -> Iterator[Point]:
    """Yield layouts and batch sizes of one replica within the scale-up domain.

    Each serves one wave of as many sequences as it runs at once. Time includes reading the prompts, which takes the
    same GPUs; interactivity is that of decoding alone.
    """
    quick = Quick(system)
    domain, model = quick.system.domain, scenario.model
    sizes = [2**k for k in range(7) if 2**k <= domain]
    for tensor in sizes:
        for expert in sizes if model.moe else [1]:
            gpus = max(tensor, expert)
            experts = model.moe.experts if model.moe else 1
            if model.attention.q_heads % tensor or (expert > 1 and (expert % tensor or experts % expert)):
                continue
            for sequences in _BATCHES:
                made = _wave(scenario, gpus, tensor, expert, sequences)
                needed, usable = rollout_memory(quick.context(made))
                if needed > usable:
                    break
                try:
                    phase = quick.phase("rollout", made)
                except DoesNotFitError:
                    break
                if phase.facts["cap_per_replica"] < sequences:
                    break
                whole = float(phase.seconds.reshape(-1)[0])
                decode = whole - float(prefill_seconds(quick.context(made)).reshape(-1)[0])
                tokens = made.lengths.response.mean
                per_gpu = sequences * tokens / whole / gpus
                yield Point(
                    tokens / decode, per_gpu, usd_per_gpu_hour / 3600.0 / per_gpu * 1e6, tensor, expert, sequences
                )


def cheapest(found: list[Point], tokens_per_s_per_user: float) -> Point | None:
    """Return the cheapest point that is at least as quick for the user."""
    quick = [p for p in found if p.tokens_per_s_per_user >= tokens_per_s_per_user]
    return min(quick, key=lambda p: p.usd_per_million_tokens, default=None)


def _wave(scenario: Scenario, gpus: int, tensor: int, expert: int, sequences: int) -> Scenario:
    return scenario.model_copy(
        update={
            "cluster": scenario.cluster.model_copy(
                update={"gpus": gpus, "placement": "colocated", "rollout_gpus": None}
            ),
            "rollout": scenario.rollout.model_copy(update={"tensor": tensor, "expert": expert, "prefix_cache": False}),
            "algorithm": scenario.algorithm.model_copy(update={"prompts": sequences, "rollouts": 1}),
        }
    )
