"""A scenario: model, algorithm, lengths, cluster, schedule, reward and prices. Defaults are stated in the fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from .lengths import Lengths
from .model import Model, UnknownModelError, load_model
from .quantity import Bytes, Seconds, UsdPerHour

Precision = Literal["bf16", "fp16", "fp8", "nvfp4"]
Share = Annotated[float, Field(ge=0, le=1)]
PriceKind = Literal["tco_hyperscaler", "tco_neocloud", "rental_3y", "on_demand", "spot"]


class Section(BaseModel):
    """Base of a scenario's parts: a field that does not exist is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Algorithm(Section):
    """One step: ``prompts x rollouts`` sequences, trained on ``epochs`` times in batches of ``train_batch``."""

    name: Literal["grpo", "dapo", "ppo", "reinforce"] = "grpo"
    prompts: PositiveInt = Field(description="prompts per step")
    rollouts: PositiveInt = Field(description="sequences per prompt")
    train_batch: PositiveInt | None = Field(
        None, description="sequences per optimizer update; default: all of the step"
    )
    epochs: PositiveInt = 1
    reference_model: bool = Field(
        default=False, description="log-probabilities of a reference policy as well (KL term)"
    )
    policy_logprob: bool = Field(default=True, description="recompute the policy's log-probabilities before training")
    steps: PositiveInt | None = Field(default=None, description="steps of the run")

    @property
    def sequences(self) -> int:
        """Sequences per step."""
        return self.prompts * self.rollouts

    @property
    def updates(self) -> int:
        """Optimizer updates per step."""
        return self.epochs * max(1, round(self.sequences / (self.train_batch or self.sequences)))


class SequenceLengths(Section):
    """Lengths in tokens: prompt, and everything the policy generates."""

    prompt: Lengths
    response: Lengths


class Precisions(Section):
    """Precisions of the matrix products and weights, and of the cache."""

    rollout: Precision = "bf16"
    train: Precision = "bf16"
    cache: Precision = "bf16"


class Cluster(Section):
    """GPUs. ``split`` gives rollout its own ``rollout_gpus``; ``colocated`` uses all for each phase in turn."""

    gpus: PositiveInt
    placement: Literal["colocated", "split"] = "colocated"
    rollout_gpus: PositiveInt | None = None

    @model_validator(mode="after")
    def _possible(self) -> Cluster:
        if (self.placement == "split") != (self.rollout_gpus is not None):
            raise ValueError("rollout_gpus goes with placement: split, and only with it")
        if self.rollout_gpus is not None and self.rollout_gpus >= self.gpus:
            raise ValueError(f"rollout_gpus = {self.rollout_gpus} must be below gpus = {self.gpus}")
        return self

    @property
    def generating(self) -> int:
        """GPUs that generate."""
        return self.rollout_gpus or self.gpus

    @property
    def training(self) -> int:
        """GPUs that train."""
        return self.gpus - self.rollout_gpus if self.rollout_gpus else self.gpus


class Speculative(Section):
    """Speculative decoding: ``accepted`` tokens, with the bonus token, come of ``draft`` proposed."""

    draft: PositiveInt
    accepted: Annotated[float, Field(ge=1)]
    draft_cost: Share = Field(default=0.1, description="time of drafting over the time of a verified iteration")

    @model_validator(mode="after")
    def _possible(self) -> Speculative:
        if self.accepted > self.draft + 1:
            raise ValueError(f"accepted = {self.accepted:g} is more than draft + 1 = {self.draft + 1}")
        return self


class Rollout(Section):
    """Generation. A replica is ``max(tensor, expert)`` GPUs; attention is data-parallel over its tensor groups."""

    tensor: PositiveInt = 1
    expert: PositiveInt = 1
    prefix_cache: bool = Field(default=True, description="sequences of one prompt share its prefill")
    max_sequences: PositiveInt | None = Field(default=None, description="limit of running sequences per replica")
    turns: PositiveInt = Field(default=1, description="calls of the policy per sequence")
    tool_seconds: Seconds = Field(default=0.0, description="time of the environment per turn")
    observation_tokens: NonNegativeFloat = Field(
        0.0, description="tokens read per turn after the first, part of the context"
    )
    speculative: Speculative | None = None

    @property
    def replica(self) -> int:
        """GPUs of one replica."""
        return max(self.tensor, self.expert)


class Train(Section):
    """Training and log-probabilities. Data parallelism takes what the other kinds leave."""

    tensor: PositiveInt = 1
    pipeline: PositiveInt = 1
    context: PositiveInt = 1
    expert: PositiveInt = 1
    interleave: PositiveInt = Field(default=1, description="virtual stages per pipeline stage")
    microbatch_tokens: PositiveInt = Field(default=8192, description="tokens of one microbatch of a data-parallel rank")
    recompute: Literal["none", "selective", "full"] = "full"
    shard: Literal["optimizer", "full"] = Field(
        "optimizer", description="what data parallelism shards: optimizer state, or weights too"
    )


class Reward(Section):
    """Verification. Each sequence needs a sandbox for ``seconds``; at most ``concurrency`` run at once."""

    seconds: Seconds = 1.0
    vcpus: PositiveFloat = 1.0
    memory: Bytes = 1.074e9
    concurrency: PositiveInt = 256
    overlapped: bool = Field(
        True, description="sequences are verified while others still generate; the last one's time shows"
    )
    billing: Literal["allocated", "active"] = "allocated"
    active_share: Share = Field(default=1.0, description="share of allocated vCPU time that is active")


class PriceRange(Section):
    """A price with its spread."""

    low: UsdPerHour
    typical: UsdPerHour
    high: UsdPerHour

    @model_validator(mode="after")
    def _possible(self) -> PriceRange:
        if not self.low <= self.typical <= self.high:
            raise ValueError("low, typical and high must rise")
        return self


class Prices(Section):
    """What is paid. ``gpu`` names a price of the hardware profiles; ``gpu_per_hour`` gives it per system instead."""

    gpu: PriceKind = "tco_neocloud"
    gpu_per_hour: dict[str, PriceRange] = Field(
        default_factory=dict, description="by system name; replaces the profile's"
    )
    vcpu: UsdPerHour = Field(default=0.0504, description="USD per vCPU-hour (E2B and Daytona, 2026)")
    memory: UsdPerHour = Field(default=0.0162, description="USD per GiB-hour (E2B and Daytona, 2026)")
    own_sandboxes: bool = Field(default=False, description="sandboxes run on CPUs already paid for")


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
    parameters: dict[str, float] = Field(default_factory=dict, description="calibrated parameters to fix at a value")
    systems: list[str] = Field(
        default=["b200-hgx", "gb300-nvl72", "vera-rubin-nvl72"], description="profiles used by default"
    )
    note: str = ""

    @field_validator("model", mode="before")
    @classmethod
    def _named_model(cls, value: Any) -> Any:
        if isinstance(value, str):
            try:
                return load_model(value)
            except UnknownModelError as error:
                raise ValueError(str(error)) from None
        return value

    @model_validator(mode="after")
    def _possible(self) -> Scenario:
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
        if t.expert * t.pipeline > c.training:
            raise ValueError(
                f"train: expert x pipeline = {t.expert * t.pipeline} is more than the {c.training} GPUs that train"
            )
        if self.weight_sync == "colocated" and c.placement == "split":
            raise ValueError("weight_sync: colocated needs placement: colocated; choose broadcast or peer_to_peer")
        if self.schedule != "sync" and c.placement == "colocated":
            raise ValueError(f"schedule: {self.schedule} needs placement: split, so that phases can run at once")
        return self

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
