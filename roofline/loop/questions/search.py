"""Search the layouts of a scenario on one system.

Generation and training are chosen apart, because in every schedule a step gets no longer when either side gets
shorter: the best few layouts of both sides meet for each count and split, and only there weight sync is added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..change import problem
from ..generate import rollout_memory
from ..learn import training_memory
from ..scenario import Scenario
from ..schedule import PHASES, follow
from ..sections import Cluster, Rollout, Train
from .layouts import clusters, rollout_layouts, train_layouts
from .quick import Quick

Objective = Literal["usd", "time_s"]
_KEPT = 3
_TRAIN_TRIES = 24


@dataclass(frozen=True)
class Choice:
    """One plan: a layout with its middle step time and dollars."""

    scenario: Scenario
    time_s: float
    usd: float
    seconds: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that the plan sets, and its results, as plain JSON values."""
        c, r, t = self.scenario.cluster, self.scenario.rollout, self.scenario.train
        return {
            "gpus": c.gpus,
            "rollout_gpus": c.generating,
            "train_gpus": c.training,
            "rollout": {"tensor": r.tensor, "expert": r.expert, "replicas": c.generating // r.replica},
            "train": {
                **{name: getattr(t, name) for name in ("tensor", "pipeline", "context", "expert")},
                "data": c.training // (t.tensor * t.pipeline * t.context),
            },
            "microbatch_tokens": t.microbatch_tokens,
            "time_s": self.time_s,
            "usd": self.usd,
            "phase_seconds": self.seconds,
        }


class Search:
    """Best layouts by number of GPUs, each worked out once."""

    def __init__(self, base: Scenario, quick: Quick) -> None:
        self.base, self.quick, self.searched = base, quick, 0
        self._rollouts: dict[int, list[tuple[float, Rollout]]] = {}
        self._trains: dict[int, list[tuple[float, Train, dict[str, float]]]] = {}
        self._least: dict[tuple[str, int], tuple[float, float]] = {}
        self._price = quick.price(base)

    def best_of(self, gpus: int, objective: Objective) -> Choice | None:
        """Return the best plan on a number of GPUs, or none if nothing fits."""
        split = self.base.cluster.placement == "split"
        found = [c for cluster in clusters(gpus, split=split) for c in self._meetings(cluster)]
        # At one count the GPU-dollars follow the time, so both objectives have the same best.
        return min(found, key=lambda c: getattr(c, objective), default=None)

    def _meetings(self, cluster: Cluster) -> list[Choice]:
        made = []
        for rollout_s, rollout in self._best_rollouts(cluster):
            for _, train, learning in self._best_trains(cluster):
                s = self.base.model_copy(update={"cluster": cluster, "rollout": rollout, "train": train})
                if problem(s) is not None:
                    continue
                seconds = {"rollout": rollout_s, **learning}
                seconds |= {name: self.quick.seconds(name, s) for name in ("reward", "weight_sync")}
                arrays = {name: np.full((1, 1), seconds[name]) for name in PHASES}
                step = follow(
                    s.schedule,
                    arrays,
                    np.full((1, 1), self.quick.overhead(s)),
                    gpus=cluster.gpus,
                    generating=cluster.generating,
                    training=cluster.training,
                )
                time_s = float(step.seconds.item())
                made.append(
                    Choice(s, time_s, time_s * cluster.gpus / 3600.0 * self._price + self._sandboxes(s), seconds)
                )
        return made

    def _sandboxes(self, s: Scenario) -> float:
        facts = self.quick.phase("reward", s).facts
        paid = facts["vcpu_hours"] * s.prices.vcpu + facts["gib_hours"] * s.prices.memory
        return 0.0 if s.prices.own_sandboxes else paid

    def _best_rollouts(self, cluster: Cluster) -> list[tuple[float, Rollout]]:
        n = cluster.generating
        if n not in self._rollouts:
            found = []
            for layout in rollout_layouts(self.base.rollout, self.base.model, n, self.quick.system.domain):
                s = self.base.model_copy(update={"cluster": cluster, "rollout": layout})
                if not self._fits("rollout", n, *rollout_memory(self.quick.context(s))):
                    continue
                found.append((self.quick.seconds("rollout", s), layout))
                self.searched += 1
            self._rollouts[n] = sorted(found, key=lambda pair: pair[0])[:_KEPT]
        return self._rollouts[n]

    def _best_trains(self, cluster: Cluster) -> list[tuple[float, Train, dict[str, float]]]:
        n = cluster.training
        if n not in self._trains:
            fitting = []
            for layout in train_layouts(self.base.train, self.base.model, n, self.quick.system.domain):
                s = self.base.model_copy(update={"cluster": cluster, "train": layout})
                if self._fits("training", n, *training_memory(self.quick.context(s))):
                    fitting.append((layout.tensor * layout.pipeline * layout.context, layout.expert, layout, s))
            # The fewest GPUs per copy first: more of them add bubbles and collectives.
            fitting.sort(key=lambda entry: entry[:2])
            found = []
            for *_, layout, s in fitting[:_TRAIN_TRIES]:
                learning = {name: self.quick.seconds(name, s) for name in ("logprob", "train")}
                found.append((sum(learning.values()), layout, learning))
                self.searched += 1
            best = sorted(found, key=lambda entry: entry[0])[:_KEPT]
            more = [again for _, layout, _ in best for again in self._batches(cluster, layout)]
            self._trains[n] = sorted([*best, *more], key=lambda entry: entry[0])[:_KEPT]
        return self._trains[n]

    def _batches(self, cluster: Cluster, layout: Train) -> Iterator[tuple[float, Train, dict[str, float]]]:
        """Half and twice the microbatch, as long as it holds the longest sequence."""
        lengths = self.base.lengths
        longest = lengths.prompt.longest + self.base.observations + lengths.response.longest
        for tokens in (layout.microbatch_tokens // 2, layout.microbatch_tokens * 2):
            again = layout.model_copy(update={"microbatch_tokens": tokens})
            s = self.base.model_copy(update={"cluster": cluster, "train": again})
            needed, usable = training_memory(self.quick.context(s))
            if tokens >= longest and needed <= usable:
                learning = {name: self.quick.seconds(name, s) for name in ("logprob", "train")}
                self.searched += 1
                yield sum(learning.values()), again, learning

    def _fits(self, side: str, gpus: int, needed: float, usable: float) -> bool:
        least = self._least.get((side, gpus))
        if least is None or needed < least[0]:
            self._least[side, gpus] = (needed, usable)
        return needed <= usable

    def memory_reasons(self) -> list[str]:
        """Return for each side what it needs at least on the largest count below the first that fits."""
        made = []
        for side in ("rollout", "training"):
            counts = {n: v for (name, n), v in self._least.items() if name == side}
            fitting = min((n for n, (needed, usable) in counts.items() if needed <= usable), default=float("inf"))
            short = [n for n in counts if n < fitting]
            if short:
                gpus = max(short)
                needed, usable = counts[gpus]
                made.append(
                    f"{side} does not fit on {gpus} GPUs or fewer: any layout tried needs at least "
                    f"{needed / 1e9:.0f} GB per GPU, and {usable / 1e9:.0f} GB are usable"
                )
        return made
