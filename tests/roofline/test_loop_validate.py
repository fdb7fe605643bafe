"""Published steps: what is held out, and how far off the model is there."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from roofcast.roofline.loop.calibrate import calibration_steps, log_errors
from roofcast.roofline.loop.ground_truth import NotEnoughError, published_step, read_rows, set_of
from roofcast.roofline.loop.scenario_file import ScenarioError
from roofcast.roofline.loop.validate import Validation, validate


@pytest.fixture(scope="module")
def result() -> Validation:
    return validate()


def test_held_out_steps_meet_the_goal(result: Validation) -> None:
    held = result.as_dict()["held_out"]
    assert held["rows"] >= 20
    assert held["median_abs_error"] <= 0.20
    assert held["coverage"] >= 0.80
    assert 0.8 <= held["bias"] <= 1.25
    # A band that always holds would say nothing.
    assert held["band_width"] <= 2.5


def test_no_row_is_in_both_sets(result: Validation) -> None:
    keys = [(r.step.set, r.step.source, r.step.system, str(r.step.scenario), r.step.step_time_s) for r in result.rows]
    calibration = {key[1:] for key in keys if key[0] == "calibration"}
    assert calibration.isdisjoint({key[1:] for key in keys if key[0] == "held_out"})
    assert all("H100" in r.step.system.upper() for r in result.rows if r.step.set == "calibration")


def test_every_row_is_compared_or_skipped_with_a_reason(result: Validation) -> None:
    assert len(result.rows) + sum(result.skipped.values()) == len(read_rows())
    assert all(result.skipped)


def test_another_file_scores_as_held_out(tmp_path: Path, result: Validation) -> None:
    rows = [r for r in read_rows() if r["gpu"] == "GB200" and r["model"] == "Qwen3-32B"]
    rows[0]["source"] = "mine"
    path = tmp_path / "mine.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    scored = validate(path).as_dict()
    assert scored["held_out"]["rows"] == len(rows)
    known = {r.step.step_time_s: r.mid_s for r in result.rows if r.step.scenario.model.name == "Qwen3-32B"}
    for row in scored["rows"]:
        assert row["predicted_mid_s"] == pytest.approx(known[row["published_s"]])


@pytest.mark.parametrize(
    ("change", "said"), [("avg_seq", "avg_seq"), ("gpu", "no profile"), ("algorithm", "algorithm")]
)
def test_a_row_that_says_too_little_is_skipped(change: str, said: str) -> None:
    row = next(r for r in read_rows() if set_of(r)[0] == "held_out")
    published_step(row)
    with pytest.raises(NotEnoughError, match=said):
        published_step({**row, change: ""} if change != "gpu" else {**row, change: "H20"}, any_set=True)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n"])
def test_a_file_of_another_kind_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=r"odd\.csv"):
        validate(path)


def test_calibration_measures_the_same_errors(result: Validation) -> None:
    errors = log_errors(calibration_steps()[:2], {}, {})
    assert [float(e) for e in errors] == pytest.approx(
        [_log(r.ratio) for r in result.rows if r.step.set == "calibration"][:2], abs=1e-9
    )


def _log(value: float) -> float:
    import math

    return math.log(value)
