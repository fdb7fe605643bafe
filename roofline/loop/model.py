"""The shape of a decoder, and what follows from it: parameters, active parameters, cache per token, state.

A shape lists how many layers of each kind a model has. Layers are counted, not ordered, because time and memory
do not depend on the order. Norms, biases and rotary tables are left out: they are below 0.1 % of every model.
"""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from .layers import DenseFeedForward, GatedDelta, GroupedQueryAttention, LatentAttention, Mamba2, MixtureOfExperts, Part


class UnknownModelError(LookupError):
    """A model name that is not built in; the message gives the nearest ones."""


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
