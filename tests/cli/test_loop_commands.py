"""The commands that ask about a scenario: JSON, figures, files, and one clear line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from roofcast.cli.main import app
from roofcast.roofline.loop.ground_truth import read_rows
from typer.testing import CliRunner

SCENARIO = "qwen3-30b-a3b-grpo-math"
COMMANDS = ("loop", "what-if", "break-even", "sensitivity", "plan", "sweep", "claims", "validate")


def asked(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_question_has_help_with_an_example_and_json(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert f"Example: roofcast {command}" in shown.stdout
    assert "--json" in shown.stdout


def test_loop_takes_a_name_a_file_or_a_run_folder(tmp_path: Path, save_run: Any, judged_rows: Any) -> None:
    text = (
        "name: own\nmodel: Qwen3-8B\nalgorithm: {prompts: 8, rollouts: 8, steps: 10}\ncluster: {gpus: 8}\n"
        "lengths: {prompt: {distribution: fixed, tokens: 100}, response: {distribution: fixed, tokens: 900}}\n"
    )
    (tmp_path / "own.yaml").write_text(text)
    assert asked("loop", SCENARIO, "--on", "b200")["scenario"] == SCENARIO
    own = asked("loop", str(tmp_path / "own.yaml"), "--on", "b200", "--set", "cluster.gpus=16")
    assert own["scenario"] == "own"
    assert own["rows"][-1]["gpus"] == 16
    assert own["runs"][0]["steps_mid"] == 10
    run = str(save_run(judged_rows).path)
    assert asked("loop", run, "--scenario", str(tmp_path / "own.yaml"), "--on", "b200")["scenario"] == "own"
    assert (Path(run) / "loop.parquet").exists()


def test_every_dollar_of_a_run_explains_itself(save_run: Any, judged_rows: Any) -> None:
    run = str(save_run(judged_rows).path)
    rows = asked("loop", run, "--on", "gb300-nvl72,vera-rubin-nvl72", "--set", "prices.gpu=capital")["rows"]
    for row in rows:
        steps = {step["kind"]: step for step in asked("explain", run, row["id"])["steps"]}
        figures = {figure["name"]: figure for figure in steps["price"]["figures"]}
        assert "MUSD" in figures["price"]["source"]
        assert steps["terms"]["figures"]


def test_loop_writes_files_and_a_figure(tmp_path: Path) -> None:
    names = ["a.xlsx", "a.focus.csv", "agg_a.json", "a.parquet"]
    options = [part for name in names for part in ("--out", str(tmp_path / name))]
    done = CliRunner().invoke(
        app, ["loop", SCENARIO, "--on", "b200,vera-rubin-nvl72", *options, "--figure", str(tmp_path / "a.svg")]
    )
    assert done.exit_code == 0, done.output
    assert {path.name for path in tmp_path.iterdir()} == {*names, "a.svg"}
    drawn = (tmp_path / "a.svg").read_text()
    assert "weight_sync" in drawn or "<path" in drawn


def test_a_learning_curve_gives_the_dollars_of_a_point(tmp_path: Path) -> None:
    points = [(s, 0.2 + 0.6 / (1 + (150 / s) ** 1.3)) for s in range(20, 620, 40)]
    (tmp_path / "c.csv").write_text("\n".join(["steps,pass_rate", *(f"{s},{r}" for s, r in points)]))
    run = asked("loop", SCENARIO, "--on", "b200", "--curve", str(tmp_path / "c.csv"), "--pass-rate", "0.7")["runs"][0]
    assert run["usd_per_point_low"] < run["usd_per_point_mid"] < run["usd_per_point_high"]
    assert run["steps_mid"] == pytest.approx(150 * 5 ** (1 / 1.3), rel=0.03)


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["what-if", SCENARIO, "cluster.gpus=16,32", "--on", "b200"], "rows"),
        (["break-even", SCENARIO, "--against", "gb300-nvl72"], "rows"),
        (["sensitivity", SCENARIO, "--result", "time_s"], "inputs"),
        (["plan", SCENARIO, "--on", "gb300-nvl72", "--most-gpus", "16"], "by_count"),
    ],
)
def test_questions_print_json_and_draw(arguments: list[str], key: str, tmp_path: Path) -> None:
    figure = tmp_path / "figure.png"
    assert asked(*arguments, "--figure", str(figure))[key]
    assert figure.read_bytes().startswith(b"\x89PNG")
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output


def test_an_infeasible_plan_exits_with_1_and_says_why() -> None:
    found = asked("plan", SCENARIO, "--on", "gb300-nvl72", "--deadline", "1 s", "--most-gpus", "8", code=1)
    assert found["best"] is None
    assert any("allow that long" in reason for reason in found["reasons"])


def test_sweep_writes_all_points_and_prints_the_best(tmp_path: Path) -> None:
    out = tmp_path / "points.csv"
    found = asked(
        "sweep", SCENARIO, "cluster.gpus=16,20", "algorithm.prompts=32..64..3", "--on", "b200", "--out", str(out)
    )
    assert (found["points"], found["possible"]) == (6, 3)
    assert len(out.read_text().splitlines()) == 7
    usd = [row["usd"] for row in found["best"]]
    assert usd == sorted(usd)


def test_claims_prints_six() -> None:
    assert len(asked("claims")["claims"]) == 6


def test_validate_scores_held_out_rows_and_a_file_of_the_users(tmp_path: Path) -> None:
    found = asked("validate")
    assert {"rows", "median_abs_error", "bias", "coverage"} <= set(found["held_out"])
    assert found["held_out"]["rows"] >= 20
    assert {row["set"] for row in found["by_source"]} == {"calibration", "held_out"}
    rows = [row for row in read_rows() if row["gpu"] == "GB200" and row["record_type"] == "e2e_step"]
    lines = [",".join(rows[0]), *(",".join(f'"{value}"' for value in row.values()) for row in rows)]
    (tmp_path / "mine.csv").write_text("\n".join(lines).replace("NeMo RL v0.5", "mine"))
    own = asked("validate", "--rows", str(tmp_path / "mine.csv"))
    assert own["held_out"]["rows"] == 10
    assert own["calibration"]["rows"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["loop", "nosuch"], ["nosuch", SCENARIO]),
        (["loop", SCENARIO, "--set", "cluster.gpsu=3"], ["gpsu", "gpus"]),
        (["loop", SCENARIO, "--out", "a.doc"], ["a.doc", ".xlsx"]),
        (["what-if", SCENARIO, "cluster.gpus"], ["FIELD=VALUE"]),
        (["what-if", SCENARIO, "cluster.gpus=7"], ["7", "expert"]),
        (["plan", SCENARIO, "--deadline", "5 GB"], ["5 GB", "30 s"]),
        (["sweep", SCENARIO, "cluster.gpus=16", "--by", "speed"], ["speed", "usd"]),
        (["validate", "--rows", "nosuch.csv"], ["nosuch.csv"]),
        (["sensitivity", SCENARIO, "--on", "b20"], ["b20", "b200"]),
    ],
)
def test_wrong_questions_raise_an_error_written_for_the_user(arguments: list[str], words: list[str]) -> None:
    done = CliRunner().invoke(app, arguments)
    error = done.exception
    assert error is not None
    assert type(error).__module__.startswith("roofcast."), repr(error)
    for word in words:
        assert word in str(error)
