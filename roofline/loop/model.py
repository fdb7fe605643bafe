"""The shape of a decoder, and what follows from it: parameters, active parameters, cache per token, state.

A shape lists how many layers of each kind a model has. Layers are counted, not ordered, because time and memory
do not depend on the order. Norms, biases and rotary tables are left out: they are below 0.1 % of every model.
"""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator


class UnknownModelError(LookupError):
    """A model name that is not built in; the message gives the nearest ones."""


class Part(BaseModel):
    """Base of all parts of a shape: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class GroupedQueryAttention(Part):
    """Multi-head attention whose query heads share key and value heads.

    ``gated`` doubles the query projection (an output gate); ``windowed_layers`` see only the last ``window`` tokens.
    """

    kind: Literal["gqa"] = "gqa"
    layers: PositiveInt
    q_heads: PositiveInt
    kv_heads: PositiveInt
    head_dim: PositiveInt
    gated: bool = False
    windowed_layers: NonNegativeInt = 0
    window: NonNegativeInt = 0

    @model_validator(mode="after")
    def _possible(self) -> GroupedQueryAttention:
        if self.q_heads % self.kv_heads:
            raise ValueError(f"q_heads = {self.q_heads} is not a multiple of kv_heads = {self.kv_heads}")
        if self.windowed_layers > self.layers or bool(self.windowed_layers) != bool(self.window):
            raise ValueError("windowed_layers is at most layers, and goes with window")
        return self

    def parameters(self, hidden: int) -> int:
        """Weights of one layer."""
        query = self.q_heads * self.head_dim
        return hidden * query * (3 if self.gated else 2) + 2 * hidden * self.kv_heads * self.head_dim

    @property
    def cache_values(self) -> int:
        """Values cached per token and layer."""
        return 2 * self.kv_heads * self.head_dim

    @property
    def score_dim(self) -> int:
        """Multiply-adds per query head, query and key: scores and weighted values."""
        return 2 * self.head_dim

    @property
    def decode_score_dim(self) -> int:
        """As `score_dim`, in decode."""
        return self.score_dim


class LatentAttention(Part):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434); ``index_*`` is the sparse indexer of V3.2."""

    kind: Literal["mla"] = "mla"
    layers: PositiveInt
    q_heads: PositiveInt
    q_rank: PositiveInt
    kv_rank: PositiveInt
    nope_dim: PositiveInt
    rope_dim: PositiveInt
    v_dim: PositiveInt
    index_heads: NonNegativeInt = 0
    index_dim: NonNegativeInt = 0
    index_top_k: NonNegativeInt = 0
    windowed_layers: Literal[0] = 0
    window: Literal[0] = 0

    def parameters(self, hidden: int) -> int:
        """Weights of one layer."""
        query = hidden * self.q_rank + self.q_rank * self.q_heads * (self.nope_dim + self.rope_dim)
        key_value = hidden * (self.kv_rank + self.rope_dim) + self.kv_rank * self.q_heads * (self.nope_dim + self.v_dim)
        index = self.index_heads * (self.q_rank * self.index_dim + hidden) + hidden * self.index_dim
        return query + key_value + self.q_heads * self.v_dim * hidden + (index if self.index_heads else 0)

    @property
    def cache_values(self) -> int:
        """Values cached per token and layer: the latent and the rotary key."""
        return self.kv_rank + self.rope_dim

    @property
    def score_dim(self) -> int:
        """Multiply-adds per head, query and key, with keys and values expanded (prefill and training)."""
        return self.nope_dim + self.rope_dim + self.v_dim

    @property
    def decode_score_dim(self) -> int:
        """As `score_dim`, in the latent space (decode): the up-projections are absorbed."""
        return 2 * self.kv_rank + self.rope_dim


class Mamba2(Part):
    """Mamba-2 mixer (arXiv 2405.21060) with an fp32 state and a bf16 convolution window."""

    kind: Literal["mamba2"] = "mamba2"
    layers: PositiveInt
    heads: PositiveInt
    head_dim: PositiveInt
    groups: PositiveInt
    state: PositiveInt
    conv: PositiveInt = 4

    @property
    def conv_channels(self) -> int:
        """Channels that the short convolution runs over."""
        return self.heads * self.head_dim + 2 * self.groups * self.state

    def parameters(self, hidden: int) -> int:
        """Weights of one layer."""
        inner = self.heads * self.head_dim
        into = hidden * (2 * inner + 2 * self.groups * self.state + self.heads)
        return into + self.conv_channels * self.conv + inner * hidden

    @property
    def state_values(self) -> int:
        """Values of the recurrent state of one sequence and layer."""
        return self.heads * self.head_dim * self.state


class GatedDelta(Part):
    """Gated delta net (arXiv 2412.06464) with an fp32 state and a bf16 convolution window."""

    kind: Literal["gated_delta"] = "gated_delta"
    layers: PositiveInt
    qk_heads: PositiveInt
    v_heads: PositiveInt
    head_dim: PositiveInt
    conv: PositiveInt = 4

    @property
    def conv_channels(self) -> int:
        """Channels that the short convolution runs over."""
        return (2 * self.qk_heads + self.v_heads) * self.head_dim

    def parameters(self, hidden: int) -> int:
        """Weights of one layer."""
        value = self.v_heads * self.head_dim
        into = hidden * (2 * self.qk_heads * self.head_dim + 2 * value + 2 * self.v_heads)
        return into + self.conv_channels * self.conv + value * hidden

    @property
    def state_values(self) -> int:
        """Values of the recurrent state of one sequence and layer."""
        return self.v_heads * self.head_dim * self.head_dim


class DenseFeedForward(Part):
    """Feed-forward layers without experts: gate, up and down."""

    layers: PositiveInt
    inter: PositiveInt

    def parameters(self, hidden: int) -> int:
        """Weights of one layer."""
        return 3 * hidden * self.inter


class MixtureOfExperts(Part):
    """Layers with routed experts, and a shared one of width ``shared_inter`` (0: none).

    ``latent``: experts work in a space of that width, reached by a projection down and up (0: in ``hidden``).
    ``matrices``: 3 with a gate, 2 without.
    """

    layers: PositiveInt
    experts: PositiveInt
    top_k: PositiveInt
    inter: PositiveInt
    shared_inter: NonNegativeInt = 0
    latent: NonNegativeInt = 0
    matrices: Literal[2, 3] = 3

    @model_validator(mode="after")
    def _possible(self) -> MixtureOfExperts:
        if self.top_k > self.experts:
            raise ValueError(f"top_k = {self.top_k} is more than experts = {self.experts}")
        return self

    def width(self, hidden: int) -> int:
        """Width of an expert's input."""
        return self.latent or hidden

    def expert_parameters(self, hidden: int) -> int:
        """Weights of one routed expert."""
        return self.matrices * self.width(hidden) * self.inter

    def common_parameters(self, hidden: int) -> int:
        """Weights of one layer that every token uses: router, shared expert, latent projections."""
        return hidden * self.experts + self.matrices * hidden * self.shared_inter + 2 * hidden * self.latent


class Published(Part):
    """What the model's table says, for comparison."""

    parameters_b: PositiveFloat = Field(description="1e9 parameters")
    active_b: PositiveFloat = Field(description="1e9 parameters used per token, both embeddings included")
    kv_bytes_per_token: NonNegativeInt = Field(description="bf16")
    state_bytes_per_sequence: NonNegativeInt = 0


class Model(Part):
    """A decoder. ``source`` says where its shape stands."""

    name: str = "custom"
    hidden: PositiveInt
    vocab: PositiveInt
    max_context: PositiveInt
    attention: GroupedQueryAttention | LatentAttention = Field(discriminator="kind")
    recurrent: Mamba2 | GatedDelta | None = Field(None, discriminator="kind")
    dense: DenseFeedForward | None = None
    moe: MixtureOfExperts | None = None
    tied_embedding: bool = False
    weight_bits: dict[Literal["experts"], PositiveFloat] = Field(
        default_factory=dict, description="bits per weight as published, where it is not the run's precision"
    )
    published: Published | None = None
    source: str = ""
    note: str = ""

    @property
    def mixer_parameters(self) -> int:
        """Weights of all attention and recurrent layers."""
        recurrent = self.recurrent.layers * self.recurrent.parameters(self.hidden) if self.recurrent else 0
        return self.attention.layers * self.attention.parameters(self.hidden) + recurrent

    @property
    def dense_parameters(self) -> int:
        """Weights outside the mixers that every token uses, without embeddings."""
        dense = self.dense.layers * self.dense.parameters(self.hidden) if self.dense else 0
        return dense + (self.moe.layers * self.moe.common_parameters(self.hidden) if self.moe else 0)

    @property
    def expert_parameters(self) -> int:
        """Weights of all routed experts."""
        return self.moe.layers * self.moe.experts * self.moe.expert_parameters(self.hidden) if self.moe else 0

    @property
    def embedding_parameters(self) -> int:
        """Weights of the input embedding and the output head."""
        return self.vocab * self.hidden * (1 if self.tied_embedding else 2)

    @property
    def parameters(self) -> int:
        """All weights."""
        return self.mixer_parameters + self.dense_parameters + self.expert_parameters + self.embedding_parameters

    @property
    def active_parameters(self) -> int:
        """Weights that one token uses, both embeddings included."""
        share = self.moe.top_k / self.moe.experts if self.moe else 0
        always = self.mixer_parameters + self.dense_parameters + self.embedding_parameters
        return always + round(self.expert_parameters * share)

    def kv_bytes_per_token(self, value_bytes: float = 2.0) -> float:
        """Cache per token of the layers that keep every token."""
        full = self.attention.layers - self.attention.windowed_layers
        return full * self.attention.cache_values * value_bytes

    def state_bytes_per_sequence(self, value_bytes: float = 2.0) -> float:
        """Memory that a sequence needs whatever its length: recurrent state, convolution, full windows."""
        window = self.attention.windowed_layers * self.attention.window * self.attention.cache_values * value_bytes
        r = self.recurrent
        return window + (r.layers * (4.0 * r.state_values + 2.0 * r.conv_channels * r.conv) if r else 0.0)


@cache
def _library() -> dict[str, Any]:
    import yaml

    text = (Path(__file__).parent / "data" / "models.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)["models"]


def model_names() -> list[str]:
    """Return the names of the built-in models."""
    return sorted(_library())


def load_model(name: str) -> Model:
    """Return a built-in model; case does not matter.

    Raises
    ------
    UnknownModelError
        If there is none; the message names near matches.
    """
    by_lower = {known.lower(): known for known in _library()}
    known = by_lower.get(name.lower())
    if known is None:
        near = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.4)
        hint = (
            f"did you mean {' or '.join(by_lower[n] for n in near)}?" if near else f"known: {', '.join(model_names())}"
        )
        raise UnknownModelError(f"unknown model {name!r}; {hint}")
    return Model.model_validate({"name": known, **_library()[known]})
