"""A scenario: model, algorithm, lengths, cluster, schedule, reward and prices."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from .huggingface import is_config, read_config
from .inputs import parameter_names
from .model import Model, UnknownModelError, load_model
from .sections import (
    Algorithm,
    Cluster,
    Goal,
    Precisions,
    Prices,
    Reward,
    Rollout,
    Section,
    SequenceLengths,
    Share,
    Train,
)


def _known_parameters(values: dict[str, float]) -> dict[str, float]:
    known = parameter_names()
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
            raise ValueError(f"{name} is not a calibrated parameter; {hint}")
    return values


class Scenario(Section):
    """Everything that a loop cost needs apart from the hardware."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.\-]*$")
    title: str = ""
    model: Model
    algorithm: Algorithm
    lengths: SequenceLengths
    precision: Precisions = Precisions()
    cluster: Cluster
    rollout: Rollout = Field(default_factory=lambda: Rollout.model_validate({}))
    train: Train = Field(default_factory=lambda: Train.model_validate({}))
    schedule: Literal["sync", "one_step_off", "async"] = "sync"
    weight_sync: Literal["colocated", "broadcast", "peer_to_peer", "delta", "object_store"] = "colocated"
    delta_share: Share = Field(default=0.05, description="share of the weights' bytes that a delta sync sends")
    reward: Reward = Field(default_factory=lambda: Reward.model_validate({}))
    prices: Prices = Field(default_factory=lambda: Prices.model_validate({}))
    parameters: Annotated[dict[str, float], AfterValidator(_known_parameters)] = Field(
        default_factory=dict, description="calibrated parameters to fix at a value"
    )
    goal: Goal | None = Field(default=None, description="pass rate that the run is to reach")
    systems: list[str] = Field(
        default=["b200-hgx", "gb300-nvl72", "vera-rubin-nvl72"], description="profiles used by default"
    )
    note: str = ""

    @field_validator("model", mode="before")
    @classmethod
    def _named_model(cls, value: Any) -> Any:
        if isinstance(value, str):
            try:
                return read_config(value) if is_config(value) else load_model(value)
            except UnknownModelError as error:
                raise ValueError(str(error)) from None
        return value

    @model_validator(mode="after")
    def _possible(self) -> Scenario:
        self.check()
        return self

    def check(self) -> None:
        """Raise ValueError if the fields are not possible together."""
        longest = self.lengths.prompt.longest + self.lengths.response.longest
        if longest > self.model.max_context:
            raise ValueError(
                f"lengths: prompt and response reach {longest:g} tokens, more than the "
                f"{self.model.max_context} of {self.model.name}"
            )
        r, t, c = self.rollout, self.train, self.cluster
        if c.generating % r.replica:
            raise ValueError(f"rollout: replicas of {r.replica} GPUs do not divide the {c.generating} that generate")
        if r.expert > 1 and r.expert % r.tensor:
            raise ValueError(f"rollout: expert = {r.expert} must be a multiple of tensor = {r.tensor}")
        ranks = t.tensor * t.pipeline * t.context
        if c.training % ranks:
            raise ValueError(
                f"train: tensor x pipeline x context = {ranks} does not divide the {c.training} GPUs that train"
            )
        for section, expert in (("rollout", r.expert), ("train", t.expert)):
            if expert > 1 and (self.model.moe is None or self.model.moe.experts % expert):
                raise ValueError(f"{section}: expert = {expert} does not divide the experts of {self.model.name}")
        if t.expert > 1 and c.training % (t.expert * t.pipeline):
            less = "is more than" if t.expert * t.pipeline > c.training else "does not divide"
            raise ValueError(
                f"train: expert x pipeline = {t.expert * t.pipeline} {less} the {c.training} GPUs that train"
            )
        if self.weight_sync == "colocated" and c.placement == "split":
            raise ValueError("weight_sync: colocated needs placement: colocated; choose broadcast or peer_to_peer")
        if self.schedule != "sync" and c.placement == "colocated":
            raise ValueError(f"schedule: {self.schedule} needs placement: split, so that phases can run at once")

    @property
    def mean_length(self) -> float:
        """Mean tokens of a sequence: prompt, response and observations."""
        return self.lengths.prompt.mean + self.lengths.response.mean + self.observations

    @property
    def observations(self) -> float:
        """Mean tokens read from the environment per sequence."""
        return self.rollout.observation_tokens * (self.rollout.turns - 1)

    @property
    def tokens(self) -> float:
        """Tokens that a step trains on."""
        return self.mean_length * self.algorithm.sequences

    @property
    def pairs(self) -> float:
        """Mean query-key pairs of a whole sequence: half the mean of its squared length."""
        p, r = self.lengths.prompt, self.lengths.response
        other = self.observations
        square = p.mean_square + r.mean_square + 2 * p.mean * r.mean + other * (other + 2 * (p.mean + r.mean))
        return 0.5 * (square + self.mean_length)
