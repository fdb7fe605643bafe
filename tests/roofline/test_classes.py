"""Classes of kernels, learned from tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofcast.roofline.tables import class_of_operator, load_table
from roofcast.roofline.transfer import classes
from roofcast.roofline.transfer.classes import learn_classes, learned_class, write_classes


@pytest.fixture
def few(silicon: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample has few rows of each kernel, and not every class."""
    monkeypatch.setattr(classes, "_LEAST_ROWS", 5)
    monkeypatch.setattr(classes, "_LEAST_IN_NODE", 2)
    known = {name: entry for name, entry in load_table("kernel_classes")["classes"].items() if name in _SAMPLED}
    monkeypatch.setattr(classes, "load_table", lambda _: {"classes": known})
    classes._learned.cache_clear()


_SAMPLED = ("attention.decode", "attention.prefill", "gemm.bf16", "moe.experts", "other")


@pytest.mark.usefixtures("few")
def test_a_class_is_a_floor_and_percentiles_that_rise_with_each_other() -> None:
    made = learn_classes(("h100", "h200"), ("b200",))
    for name, entry in made.items():
        assert 1e-7 < entry["floor_s"] < 1e-4, name
        for roof, low, mid, high in entry["nodes"]:
            assert roof > 0
            assert low <= mid <= high
        assert 0 <= entry["coverage"] <= 1
        assert entry["median_error"] > 0
    rows = [entry["points"] for name, entry in made.items() if name != "other"]
    assert made["other"]["points"] >= sum(rows)


@pytest.mark.usefixtures("few")
def test_other_gpus_teach_other_numbers() -> None:
    here, there = learned_class("gemm.bf16", ("h100", "h200")), learned_class("gemm.bf16", ("l40s",))
    assert here.floor_s != there.floor_s
    assert here.stretch(1e-4)[0] <= here.stretch(1e-4)[1] <= here.stretch(1e-4)[2]
    assert "l40s" in there.title


@pytest.mark.usefixtures("few")
def test_the_file_is_written_with_its_own_text_around(tmp_path: Path) -> None:
    import yaml

    write_classes(tmp_path / "new.yaml", ("h100", "h200"), ("b200",))
    new = yaml.safe_load((tmp_path / "new.yaml").read_text())
    old = load_table("kernel_classes")
    assert new["sources"] == old["sources"]
    assert new["operators"] == old["operators"]
    assert set(new["classes"]) == set(_SAMPLED)
    assert new["classes"]["gemm.bf16"]["what"] == old["classes"]["gemm.bf16"]["what"]


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("linear.gemm", "gemm.bf16"),
        ("moe.expert_gemm", "moe.experts"),
        ("moe.combine", "streaming"),
        ("attention.mla_decode", "mla"),
        ("ssm.mamba2_decode", "recurrent.step"),
        ("train.adamw", "streaming"),
        ("mine.own", "other"),
    ],
)
def test_operators_have_the_class_of_their_work(operator: str, name: str) -> None:
    assert class_of_operator(operator).name == name
