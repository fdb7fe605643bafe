"""The figures that projection rests on: in order, and each with a source."""

from __future__ import annotations

import pytest
from roofcast.roofline.bands import Factor, combine
from roofcast.roofline.tables import (
    attained_share,
    basis,
    class_of_operator,
    generation,
    kernel_class,
    load_table,
    source_title,
)

CLASSES = sorted(load_table("kernel_classes")["classes"])


@pytest.mark.parametrize("name", CLASSES)
def test_class_nodes_rise(name: str) -> None:
    kind = kernel_class(name)
    assert list(kind.log_roof) == sorted(set(kind.log_roof))
    assert all(low <= mid <= high for low, mid, high in kind.log_stretch)
    assert kind.title
    assert 0 < kind.coverage <= 1


@pytest.mark.parametrize("name", CLASSES)
def test_stretch_is_continuous_and_constant_outside(name: str) -> None:
    import math

    kind = kernel_class(name)
    for node, logs in zip(kind.log_roof, kind.log_stretch, strict=True):
        assert kind.stretch(math.exp(node)) == pytest.approx([math.exp(v) for v in logs])
    first, last = math.exp(kind.log_roof[0]), math.exp(kind.log_roof[-1])
    assert kind.stretch(first / 100) == kind.stretch(first)
    assert kind.stretch(last * 100) == kind.stretch(last)
    assert 0 < kind.efficiency(1e-5) <= 1


def test_more_launches_raise_the_floor() -> None:
    kind = kernel_class("streaming")
    assert kind.floor(3) == 3 * kind.floor(1)


def test_operators_find_their_class() -> None:
    assert class_of_operator("attention.decode").name == "attention.decode"
    assert class_of_operator("attention.paged").name == "attention.decode"
    assert class_of_operator("mine.own").name == "other"
    with pytest.raises(KeyError, match="known"):
        kernel_class("nosuch")


def test_every_source_exists() -> None:
    for name in ("attained", "bands", "kernel_classes"):
        table = load_table(name)
        for cited in _cited(table):
            assert source_title(table, cited)


def _cited(node: object) -> list[str]:
    if isinstance(node, dict):
        here = [v for k, v in node.items() if k in ("source", "range") and isinstance(v, str)]
        return here + [c for k, v in node.items() if k != "sources" for c in _cited(v)]
    return []


def test_bands_hold_their_middle() -> None:
    for name in load_table("bands")["basis"]:
        found = basis(name)
        assert found.low <= 1 <= found.high
        assert found.note


def test_shares_are_shares() -> None:
    for entry in load_table("attained")["devices"].values():
        for value in entry["shares"].values():
            span = value if isinstance(value, list) else [value]
            assert span == sorted(span)
            assert 0 < span[0] <= span[-1] <= 1


def test_shares_by_device_then_architecture_then_default() -> None:
    assert attained_share("b300-hgx", "blackwell_ultra", "gpu", "matrix.nvfp4").mid == 0.40
    assert attained_share("gb300", "blackwell_ultra", "gpu", "matrix.nvfp4").mid == 0.41
    assert attained_share("gh200", "hopper", "gpu", "matrix.fp8").origin == "measured"
    assert attained_share("new", "new", "gpu", "matrix.bf16").origin == "assumed"
    assert attained_share("new", "new", "cpu", "dram.read") != attained_share("new", "new", "gpu", "dram.read")
    assert attained_share("new", "new", "gpu", "odd.thing").mid == 1.0


def test_generations_are_ordered() -> None:
    order = [generation(a) for a in ("ampere", "hopper", "blackwell", "rubin")]
    assert order == [1, 2, 3, 4]
    assert generation("nosuch") is None


def test_factors_combine_in_squares() -> None:
    low, high = combine([Factor("a", 0.5, 2.0, "assumed", "x"), Factor("b", 1.0, 1.0, "assumed", "x")])
    assert (low, high) == pytest.approx((0.5, 2.0))
    low, high = combine([Factor("a", 0.5, 2.0, "assumed", "x")] * 2)
    assert (low, high) == pytest.approx((0.5 ** (2**0.5), 2.0 ** (2**0.5)))
    assert combine([]) == (1.0, 1.0)
