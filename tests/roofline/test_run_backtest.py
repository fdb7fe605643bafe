"""A run of a CPU against the sample of measured rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from roofcast.cli.main import app
from roofcast.kernels import get_operator, make_workload
from roofcast.profiler.schema import CeilingRow, Measurement
from roofcast.profiler.store import Run
from roofcast.profiler.suites import suite
from roofcast.roofline.silicon import import_gpu, silicon_gpu
from roofcast.roofline.silicon.shapes import table_shape
from roofcast.roofline.targets import load_target, make_target
from roofcast.roofline.transfer import NothingInCommonError, backtest, classes
from roofcast.roofline.transfer.run_backtest import backtest_run, on_shapes
from roofcast.roofline.transfer.run_document import run_sections
from roofcast.roofline.transfer.standard import StandardRun
from typer.testing import CliRunner

pytestmark = pytest.mark.usefixtures("silicon")
Rows = list[Measurement | CeilingRow]


def _products(gpu: str) -> list[dict[str, Any]]:
    """Linear layers whose shapes the sample has of a GPU."""
    rows = import_gpu(gpu).rows
    texts = rows[(rows["operator"] == "linear.gemm") & (rows["precision"] == "bf16")]["workload"].astype(str).unique()
    shapes = [dict(part.split("=") for part in text.split(", ")) for text in sorted(texts)]
    return [
        {"tokens": int(s["m"]), "out_features": int(s["n"]), "in_features": int(s["k"]), "precision": "bf16"}
        for s in shapes
    ]


@pytest.fixture
def run(save_run: Callable[[Rows], Run], measurement: Callable[..., Measurement], judged_rows: Rows) -> Run:
    made: Rows = [row for row in judged_rows if isinstance(row, CeilingRow)]
    for number, fields in enumerate(_products("b200")):
        counted = get_operator("linear.gemm").cost(make_workload("linear.gemm", fields))
        time_s = 2e-5 + counted.dram_bytes / 10e9 + counted.total_flops / 100e9
        key = f"linear.gemm|{number}|numba|cpu|cold"
        made.append(measurement("linear.gemm", time_s=time_s, cost=counted, workload=fields, key=key))
    return save_run(made)


def test_every_kernel_of_the_same_shape_counts(run: Run) -> None:
    found = backtest_run(run, "B200")
    rows = import_gpu("b200").rows
    own = rows[(rows["operator"] == "linear.gemm") & (rows["precision"] == "bf16")]
    assert found.rows[-1]["n"] == len(own)
    assert np.isclose(sorted(found.matched["target_s"]), sorted(own["time_s"])).all()
    assert (found.matched["low_s"] <= found.matched["mid_s"]).all()
    assert found.basis == "cpu_to_gpu"
    # A band from real kernels of the class holds real kernels of the class, more or less.
    assert found.rows[-1]["coverage"] > 0.5
    assert found.rows[-1]["median_abs_error"] < found.baselines["plain carry"][-1]["median_abs_error"]


def test_no_gpu_of_the_targets_design_teaches(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "_LEAST_ROWS", 5)
    monkeypatch.setattr(classes, "_LEAST_IN_NODE", 2)
    known = {"classes": {"gemm.bf16": classes.load_table("kernel_classes")["classes"]["gemm.bf16"]}}
    monkeypatch.setattr(classes, "load_table", lambda _: known)
    classes._learned.cache_clear()
    for target in ("b200", "h200"):
        teachers = backtest_run(run, target).taught_by
        assert teachers
        assert silicon_gpu(target).family not in {silicon_gpu(name).family for name in teachers}
    classes._learned.cache_clear()


def test_what_the_device_attains_is_not_known_to_the_test() -> None:
    from roofcast.hwprofiles import load

    own, like = load_target("b200-hgx"), make_target(load("b200-hgx"), attained_as="hopper")
    name = "matrix.bf16"
    assert like.specified[name].value == own.specified[name].value
    hopper = load_target("h100-sxm")
    share = hopper.attained["mid"][name].value / hopper.specified[name].value
    found = like.attained["mid"][name].value / like.specified[name].value
    assert found == pytest.approx(share, abs=0.02)
    assert found != pytest.approx(own.attained["mid"][name].value / own.specified[name].value, abs=0.02)


def test_other_sources_are_scored_on_the_same_shapes(run: Run) -> None:
    held = backtest_run(run, "b200")
    other = backtest("h200", "b200")
    lines = on_shapes(other, held.matched)
    assert {line["operator_class"] for line in lines} == {"gemm.bf16", "all"}
    assert lines[-1]["n"] <= held.rows[-1]["n"]
    text = "\n".join(run_sections(StandardRun((other,), {}, (held,))))
    assert "| h200 to b200, no anchors |" in text
    assert f"| {held.source} to b200 |" in text


def test_a_run_without_common_shapes_says_what_to_do(save_run: Callable[[Rows], Run], judged_rows: Rows) -> None:
    with pytest.raises(NothingInCommonError, match="roofcast bench --suite silicon"):
        backtest_run(save_run(judged_rows), "b200")


def test_every_shape_of_the_suite_has_a_name_in_the_tables() -> None:
    for operator, workload in suite("silicon"):
        assert table_shape(operator, workload.as_dict()) is not None, workload


@pytest.mark.parametrize(
    ("operator", "fields"),
    [
        ("moe.routing", {}),
        ("moe.expert_gemm", {"skew": "zipf"}),
        ("moe.expert_gemm", {"gated": False}),
        ("attention.decode", {"lengths": "lognormal"}),
        ("attention.decode", {"sinks": True}),
    ],
)
def test_work_that_the_tables_do_not_have_is_not_compared(operator: str, fields: dict[str, Any]) -> None:
    assert table_shape(operator, make_workload(operator, fields).as_dict()) is None


def test_the_command(run: Run, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["backtest", "--run", str(run.path), "--to", "b200", "--json"])
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert found["pair"].endswith(":b200")
    assert found["rows"][-1]["operator_class"] == "all"
    shown = CliRunner().invoke(app, ["backtest", "--run", str(run.path), "--pair", "H200:B200"])
    assert shown.exit_code == 2
