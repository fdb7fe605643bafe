"""Shapes reproduce the published parameter counts and cache sizes."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from roofcast.roofline.loop.model import Model, UnknownModelError, load_model, model_names

# Total parameters in 1e9 as published by the makers, independent of the table that the shapes came with.
PUBLISHED_TOTAL = {
    "Qwen3-235B-A22B": 235,
    "Qwen3-30B-A3B": 30.5,
    "Qwen3-32B": 32.8,
    "Qwen3-8B": 8.2,
    "DeepSeek-V3": 671,
    "gpt-oss-120b": 117,
    "gpt-oss-20b": 20.9,
    "Llama-3.1-8B": 8.03,
    "Llama-3.1-70B": 70.6,
    "Llama-3.1-405B": 405.9,
}


def test_twenty_models() -> None:
    assert len(model_names()) == 20


@pytest.mark.parametrize("name", model_names())
def test_parameters_reproduce_the_published_totals(name: str) -> None:
    model = load_model(name)
    published = model.published
    assert published is not None
    assert model.source
    assert model.parameters == pytest.approx(published.parameters_b * 1e9, rel=0.01)
    # One digit after the point is all that is known of the active ones, and indexers are not in them.
    assert model.active_parameters == pytest.approx(published.active_b * 1e9, rel=0.02)
    assert model.state_bytes_per_sequence() - _windows(model) == published.state_bytes_per_sequence


@pytest.mark.parametrize(("name", "total"), PUBLISHED_TOTAL.items())
def test_parameters_reproduce_the_makers_totals(name: str, total: float) -> None:
    assert load_model(name).parameters == pytest.approx(total * 1e9, rel=0.01)


@pytest.mark.parametrize("name", model_names())
def test_cache_per_token(name: str) -> None:
    model = load_model(name)
    assert model.published is not None
    share = 1 - model.attention.windowed_layers / model.attention.layers
    assert model.kv_bytes_per_token() == model.published.kv_bytes_per_token * share


def _windows(model: Model) -> float:
    return model.attention.windowed_layers * model.attention.window * model.attention.cache_values * 2.0


def test_a_hybrid_is_limited_by_its_state_and_not_by_its_cache() -> None:
    ultra = load_model("nemotron-3-ultra-550b-a55b")
    assert ultra.state_bytes_per_sequence() == pytest.approx(32_768 * ultra.kv_bytes_per_token(), rel=0.05)


def test_latent_experts_are_narrower() -> None:
    ultra = load_model("Nemotron-3-Ultra-550B-A55B")
    assert ultra.moe is not None
    assert ultra.moe.width(ultra.hidden) == 2048


def test_unknown_model_names_the_nearest() -> None:
    with pytest.raises(UnknownModelError, match="Qwen3-30B-A3B"):
        load_model("qwen3-30b")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"moe": {"layers": 2, "experts": 4, "top_k": 8, "inter": 16}}, "top_k"),
        ({"attention": {"kind": "gqa", "layers": 2, "q_heads": 10, "kv_heads": 4, "head_dim": 8}}, "q_heads"),
        ({"hidden": 0}, "hidden"),
    ],
)
def test_impossible_shapes_are_refused(change: dict[str, object], field: str) -> None:
    good = {
        "hidden": 64,
        "vocab": 1000,
        "max_context": 512,
        "attention": {"kind": "gqa", "layers": 2, "q_heads": 4, "kv_heads": 2, "head_dim": 16},
    }
    Model.model_validate(good)
    with pytest.raises(ValidationError, match=field):
        Model.model_validate({**good, **change})
