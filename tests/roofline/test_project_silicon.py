"""Projecting a real GPU's tables: ordered bands, all targets, anchors, speed of the form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from roofcast.cli.main import app
from roofcast.roofline.figure_style import duration
from roofcast.roofline.silicon import import_gpu
from roofcast.roofline.transfer import NothingInCommonError, backtest
from roofcast.roofline.transfer.anchor_file import AnchorFileError
from roofcast.roofline.transfer.device import speeds_of
from roofcast.roofline.transfer.pairs import gpu_speeds
from roofcast.roofline.transfer.project import AnchorTargetError, project_silicon
from roofcast.roofline.transfer.shipped import FAMILIES, calibration_for
from typer.testing import CliRunner

pytestmark = pytest.mark.usefixtures("silicon")


def test_every_line_is_an_interval_with_its_basis() -> None:
    found = project_silicon("h200", ["b200", "gb300", "vera-rubin-nvl72"], operator="attention.decode")
    assert len(found) == 3 * (import_gpu("h200").rows["operator"] == "attention.decode").sum()
    assert (found.low_s <= found.mid_s).all()
    assert (found.mid_s <= found.high_s).all()
    assert found.groupby("target").basis.first().to_dict() == {
        "b200-hgx": "next_generation",
        "gb300": "next_generation",
        "vera-rubin-nvl72": "two_generations",
    }
    width = (found.high_s / found.low_s).groupby(found.target).median()
    assert width["vera-rubin-nvl72"] > width["b200-hgx"]


def test_onto_itself_nothing_changes() -> None:
    found = project_silicon("h200", ["h200-sxm"])
    np.testing.assert_allclose(found.mid_s, found.source_s, rtol=1e-12)


def test_nothing_falls_below_its_overhead_and_faster_hardware_is_not_slower() -> None:
    found = project_silicon("h200", ["b200"])
    assert (found.mid_s >= found.overhead_s).all()
    assert (found.mid_s <= 1.05 * found.source_s).mean() > 0.95


@pytest.mark.parametrize(("target", "family"), [("b200-hgx", "blackwell"), ("h100-sxm", "hopper"), ("rubin-r200", "")])
def test_the_shipped_calibration_left_the_target_out(target: str, family: str) -> None:
    found = calibration_for(speeds_of(target))
    assert found.family == family
    assert family in FAMILIES
    names = {"blackwell": ("b200", "b300"), "hopper": ("h100", "h200"), "": ("rubin",)}[family]
    for pairs in found.pairs.values():
        assert not [pair for pair in pairs for name in names if name in pair]


def test_anchors_pull_their_kernel_towards_what_was_measured(tmp_path: Path) -> None:
    both = backtest("h200", "b200", operator="gemm.fp8_block").matched
    group = both.group.value_counts().index[0]
    own = both[both.group == group]
    file = tmp_path / "anchors.csv"
    own.iloc[::3].assign(time_s=own.target_s)[["operator", "workload", "kernel", "time_s"]].to_csv(file, index=False)
    keys = ["group", "workload"]
    plain = project_silicon("h200", ["b200"], operator="gemm.fp8_block")
    near = project_silicon("h200", ["b200"], operator="gemm.fp8_block", anchors=file)
    left = own.drop(own.index[::3])[[*keys, "target_s"]]
    error = [
        (
            pd.merge(found.astype({"group": str, "workload": str}), left, on=keys).eval("abs(mid_s / target_s - 1)")
        ).median()
        for found in (plain, near)
    ]
    assert error[1] < error[0]
    assert (near[near.group == group].anchors > 0).all()
    others = near.group != group
    np.testing.assert_array_equal(near.mid_s[others], plain.mid_s[others])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "operator,workload\nlinear.gemm,m=1\n", "time_s"),
        ("a.csv", "operator,workload,time_s\nlinear.gemm,m=1,-3\n", "row 1"),
        ("a.csv", 'operator,workload,time_s\nlinear.gemm,"m=1, n=1, k=1",3\n', "none of the 1"),
        ("a.txt", "", "jsonl"),
    ],
)
def test_a_file_of_anchors_that_does_not_fit_is_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(AnchorFileError, match=words):
        project_silicon("h200", ["b200"], operator="linear.gemm", anchors=tmp_path / name)


def test_anchors_belong_to_one_target(tmp_path: Path) -> None:
    with pytest.raises(AnchorTargetError, match="one target"):
        project_silicon("h200", ["b200", "gb300"], anchors=tmp_path / "a.csv")


def test_an_operator_without_rows_names_those_that_have_some() -> None:
    with pytest.raises(NothingInCommonError, match=r"attention\.decode"):
        project_silicon("h200", ["b200"], operator="sampling.logprob")


def test_the_command_projects_and_writes(tmp_path: Path) -> None:
    arguments = ["project", "--from", "silicon:h200", "--to", "b200,vera-rubin-nvl72", "--operator", "attention.decode"]
    result = CliRunner().invoke(app, [*arguments, "--json", "--limit", "3", "--out", str(tmp_path / "all.csv")])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [line["target"] for line in found["projections"]] == ["b200-hgx"] * 3 + ["vera-rubin-nvl72"] * 3
    assert len(pd.read_csv(tmp_path / "all.csv")) == found["rows"]
    assert "80 % band" in CliRunner().invoke(app, arguments).output


def test_a_run_or_a_start_is_needed() -> None:
    for arguments in (["project"], ["project", "--from", "h200"], ["project", "x", "--from", "silicon:h200"]):
        assert CliRunner().invoke(app, arguments).exit_code == 2


def test_sources_have_plausible_speeds() -> None:
    h200, b200 = gpu_speeds("h200"), gpu_speeds("b200")
    assert 1.0 < b200.issue / h200.issue < 1.3
    assert 0.9 < b200.clock / h200.clock < 1.1


def test_explain_says_how_a_time_was_carried() -> None:
    from roofcast.roofline.explain import UnknownRowError
    from roofcast.roofline.transfer.explain import explain_silicon

    one = project_silicon("h200", ["b200"], operator="linear.gemm").iloc[0]
    fields = str(one["workload"]).split(", ")
    chain = explain_silicon("h200", "linear.gemm@b200", workloads=fields, kernel=str(one["group"]))
    steps = {step.kind: step for step in chain.steps}
    assert list(steps) == ["measurement", "terms", "formula", "band", "sources"]
    assert str(one["group"]) in chain.title
    formula = {name: value for name, value, _ in steps["formula"].figures}
    # The middle of the formula is the projected one.
    assert formula["middle"].endswith(f"= {duration(one['mid_s'])}")
    pairs = next(source for name, _, source in steps["band"].figures if name == "conformal")
    assert "b200" not in pairs.removeprefix("pairs ")
    with pytest.raises(UnknownRowError, match="choose one by --workload and --kernel"):
        explain_silicon("h200", "linear.gemm@b200")
    with pytest.raises(UnknownRowError, match="no row of m=7777777"):
        explain_silicon("h200", "linear.gemm@b200", workloads=["m=7777777"])
    with pytest.raises(UnknownRowError, match=r"its operators: .*linear\.gemm"):
        explain_silicon("h200", "linear.gem@b200")


def test_the_command_explains_silicon() -> None:
    one = project_silicon("h200", ["b200"], operator="linear.gemm").iloc[0]
    asked = ["explain", "silicon:h200", "linear.gemm@b200", "--kernel", str(one["group"])]
    for field in str(one["workload"]).split(", "):
        asked += ["--workload", field]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    assert "share of the roof" in shown.output
    refused = CliRunner().invoke(app, ["explain", "runs/none", "P1", "--kernel", "x"])
    assert refused.exit_code == 2
