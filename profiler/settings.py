"""How cases are measured: every choice in one place, recorded with the run."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

from .stop_criteria import NarrowInterval, NoiseSettled, SampleLimit, StopCriterion, TimeBudget


class SettingsError(ValueError):
    """A setting that makes no sense; the message names it, its value and the remedy."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Choices that hold for every case of a run.

    Parameters
    ----------
    seed
        Seed of the inputs; the check for cached answers uses ``seed + 1``.
    budget_s
        Seconds of sampling per case, flushes included, warm-up and checks not.
    warm_up_s
        Longest warm-up per case, in seconds, after the first call (which compiles).
    target
        Wanted half width of the median's 95 % confidence interval, as a fraction of the median.
    round_s
        Seconds that one implementation is sampled before the next takes its turn.
    cold_by
        How ``cold`` is made: ``flush`` sweeps the last-level cache before each sample, ``rotation`` goes round
        copies of the inputs that together exceed the cache. Calls too short for the timer always rotate.
    threads
        Threads of every CPU backend; default: the cores that this process may use.
    pin
        Whether the backends' worker threads, and while sampling the main one, are pinned to one core each.
    energy_s
        Seconds of the window in which energy is read after sampling, where a counter exists; 0 turns it off.
    retries
        How often a round that was throttled is taken again.
    timeout_s, memory_limit_bytes
        Limits of one case, enforced when cases run isolated in worker processes.
    plugins
        Users' Python files, which worker processes load too.
    criteria
        Stop criteria instead of the default ones.
    """

    seed: int = 0
    budget_s: float = 3.0
    warm_up_s: float = 2.0
    target: float = 0.01
    round_s: float = 0.1
    cold_by: Literal["flush", "rotation"] = "flush"
    threads: int | None = None
    pin: bool = True
    energy_s: float = 2.0
    retries: int = 3
    timeout_s: float = 120.0
    memory_limit_bytes: int | None = None
    plugins: tuple[str, ...] = ()
    criteria: tuple[StopCriterion, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("budget_s", "target", "round_s", "timeout_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise SettingsError(f"{name} = {getattr(self, name)!r}: give a finite number above zero")
        for name in ("warm_up_s", "energy_s", "retries", "seed"):
            if not 0 <= getattr(self, name) < math.inf:
                raise SettingsError(f"{name} = {getattr(self, name)!r}: give a finite number of zero or more")
        if self.threads is not None and self.threads < 1:
            raise SettingsError(f"threads = {self.threads!r}: give at least 1")
        if self.memory_limit_bytes is not None and self.memory_limit_bytes < 1:
            raise SettingsError(f"memory_limit_bytes = {self.memory_limit_bytes!r}: give a number of bytes above zero")

    def stop_criteria(self) -> tuple[StopCriterion, ...]:
        """Return the criteria in the order in which they are asked."""
        if self.criteria is not None:
            return (*self.criteria, TimeBudget(self.budget_s))
        return NarrowInterval(self.target), NoiseSettled(), TimeBudget(self.budget_s), SampleLimit()

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values, for the manifest and for worker processes."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["criteria"] = None if self.criteria is None else [repr(c) for c in self.criteria]
        values["plugins"] = list(self.plugins)
        return values
