"""The parts of a scenario; defaults and units are stated in the fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from .lengths import Lengths
from .quantity import Bytes, Seconds, Usd, UsdPerHour, UsdPerKwh

Precision = Literal["bf16", "fp16", "fp8", "nvfp4"]
Share = Annotated[float, Field(ge=0, le=1)]
PriceKind = Literal["tco_hyperscaler", "tco_neocloud", "rental_3y", "on_demand", "spot", "capital"]


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
        self.check()
        return self

    def check(self) -> None:
        """Raise ValueError if the fields are not possible together."""
        if (self.placement == "split") != (self.rollout_gpus is not None):
            raise ValueError("rollout_gpus goes with placement: split, and only with it")
        if self.rollout_gpus is not None and self.rollout_gpus >= self.gpus:
            raise ValueError(f"rollout_gpus = {self.rollout_gpus} must be below gpus = {self.gpus}")

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
        self.check()
        return self

    def check(self) -> None:
        """Raise ValueError if the fields are not possible together."""
        if self.accepted > self.draft + 1:
            raise ValueError(f"accepted = {self.accepted:g} is more than draft + 1 = {self.draft + 1}")


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
    cpu: Literal["x86", "vera"] = Field(
        "x86",
        description="seconds are given for x86; on Vera they and tool_seconds divide by reward.vera_factor",
    )


class PriceRange(Section):
    """A price with its spread; one quantity alone is a price without spread."""

    low: UsdPerHour
    typical: UsdPerHour
    high: UsdPerHour

    @model_validator(mode="before")
    @classmethod
    def _alone(cls, value: Any) -> Any:
        return dict.fromkeys(("low", "typical", "high"), value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _possible(self) -> PriceRange:
        if not self.low <= self.typical <= self.high:
            raise ValueError("low, typical and high must rise")
        return self


class Capital(Section):
    """Own hardware, for ``prices.gpu: capital``: price of the system, depreciated, with power and operations."""

    years: PositiveFloat = Field(default=4.0, description="depreciation")
    residual_share: Share = Field(default=0.1, description="value left at the end over the price")
    interest: Share = Field(default=0.08, description="cost of capital per year")
    utilization: Annotated[float, Field(gt=0, le=1)] = Field(0.8, description="share of hours in use")
    around_share: NonNegativeFloat = Field(
        0.25, description="network, storage and installation over the price of the system (assumed)"
    )
    operations_share: Share = Field(
        default=0.05, description="staff, repair and space per year over the price (assumed)"
    )
    electricity: dict[Literal["low", "typical", "high"], UsdPerKwh] = Field(
        default={"low": 0.0672, "typical": 0.0871, "high": 0.15},
        description="USD per kWh; default: US EIA, Texas to July 2026, industrial mean of May 2026; high assumed",
    )
    purchase: dict[str, Usd] = Field(
        default_factory=dict, description="USD per GPU with its share of the server, by system; default: the profile's"
    )


class Prices(Section):
    """What is paid. ``gpu`` names a price of the hardware profiles; ``gpu_per_hour`` gives it per system instead."""

    gpu: PriceKind = "tco_neocloud"
    capital: Capital = Field(default_factory=lambda: Capital.model_validate({}))
    gpu_per_hour: dict[str, PriceRange] = Field(
        default_factory=dict, description="by system name; replaces the profile's"
    )
    vcpu: UsdPerHour = Field(default=0.0504, description="USD per vCPU-hour (E2B and Daytona, 2026)")
    memory: UsdPerHour = Field(default=0.0162, description="USD per GiB-hour (E2B and Daytona, 2026)")
    own_sandboxes: bool = Field(default=False, description="sandboxes run on CPUs already paid for")


class LearningCurve(Section):
    """Pass rate over steps, a sigmoid in the logarithm of the steps (ScaleRL, arXiv 2510.13786).

    rate = start + (ceiling - start) / (1 + (midpoint_steps / steps)^exponent).
    """

    start: Share
    ceiling: Share
    midpoint_steps: PositiveFloat
    exponent: PositiveFloat = 1.0
    error: Share = Field(default=0.0, description="root mean square error of a fit, in pass rate")

    @model_validator(mode="after")
    def _possible(self) -> LearningCurve:
        if self.ceiling <= self.start:
            raise ValueError(f"ceiling = {self.ceiling:g} must be above start = {self.start:g}")
        return self


class Goal(Section):
    """What a run is for: a pass rate on a learning curve. Without one, ``algorithm.steps`` is the run."""

    pass_rate: Share
    curve: LearningCurve
