"""The kinds of layers of a decoder, and the weights, cache and state of each."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, model_validator


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
