"""Published steps: what is held out, and how far off the model is there."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from roofcast.roofline.loop.calibrate import calibration_steps, log_errors
from roofcast.roofline.loop.ground_truth import DATA, NotEnoughError, read_rows, set_of
from roofcast.roofline.loop.ground_truth_phases import inference_rows, published_decode, published_sync, step_spread
from roofcast.roofline.loop.ground_truth_steps import published_step
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
    p = [r.published for r in result.rows]
    keys = [(x.set, x.phase, x.source, x.system, str(x.scenario), x.published_s) for x in p]
    calibration = {key[1:] for key in keys if key[0] == "calibration"}
    assert calibration.isdisjoint({key[1:] for key in keys if key[0] == "held_out"})
    assert all("h100" in x.system for x in p if x.set == "calibration" and x.phase == "step")


def test_every_row_is_compared_or_skipped_with_a_reason(result: Validation) -> None:
    both = sum(row["record_type"] == "e2e_step" and row["weight_sync_s"] != "" for row in read_rows())
    assert len(result.rows) + sum(result.skipped.values()) == len(read_rows()) + both + len(inference_rows())
    assert all(result.skipped)


def test_phases_are_scored_apart_from_steps(result: Validation) -> None:
    found = result.as_dict()
    phases = found["held_out_phases"]
    assert set(phases) == {"train", "weight_sync", "decode"}
    assert phases["decode"]["rows"] >= 40
    assert phases["decode"]["median_abs_error"] <= 0.25
    assert 0.8 <= phases["decode"]["bias"] <= 1.25
    assert sum(group["rows"] for group in found["by_source"]) == len(result.rows)


def test_a_weight_sync_takes_its_gpus_from_the_layout() -> None:
    row = next(r for r in read_rows() if r["notes"].startswith("EP8xPP2->TP8xDP2"))
    sync = published_sync(row)
    assert (sync.set, sync.system, sync.published_s) == ("calibration", "h100-sxm", 0.87)
    assert sync.scenario.weight_sync == "peer_to_peer"
    assert (sync.scenario.cluster.training, sync.scenario.cluster.generating) == (16, 16)
    assert sync.scenario.rollout.replica == 8


def test_a_replica_without_a_layout_is_as_few_nodes_as_hold_the_weights() -> None:
    row = next(r for r in read_rows() if r["model"] == "Kimi-K2 1T")
    # 1026 GB in fp8, 69 GB usable on each H100: 15 GPUs, so two nodes.
    assert published_sync(row).scenario.rollout.replica == 16


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parallel": "8 ctx + 8 gen"}, "layout"),
        ({"spec_decode": "mtp"}, "speculatively"),
        ({"scenario": "agentic-coding"}, "cached"),
        ({"model": "of my own"}, "not built in"),
        ({"precision": "int4"}, "precision"),
    ],
)
def test_decoding_that_says_too_little_is_skipped(change: dict[str, str], said: str) -> None:
    row = next(r for r in inference_rows() if r["model"] == "openai/gpt-oss-120b" and r["parallel"] == "tp4 ep0")
    found = published_decode(row)
    assert (found.system, found.scenario.rollout.tensor, found.scenario.rollout.expert) == ("b200-hgx", 4, 1)
    with pytest.raises(NotEnoughError, match=said):
        published_decode({**row, **change})


def test_steps_of_one_run_stray_from_its_mean() -> None:
    strayed = step_spread()
    assert strayed["weight_sync"] < strayed["train"] < strayed["step"] < strayed["exposed_rollout"] < 0.5


def test_published_means_are_those_of_the_single_steps() -> None:
    published = sorted(float(r["step_time_s"]) for r in read_rows() if r["source"].startswith("MLPerf"))
    with (DATA / "mlperf_rl_steps.csv").open(newline="") as stream:
        rows = [r for r in csv.DictReader(stream) if r["step"] != "1"]
    runs = [[float(r["train_step_time"]) for r in rows if r["log"] == log] for log in {r["log"] for r in rows}]
    assert sorted(sum(run) / len(run) for run in runs) == pytest.approx(published, abs=0.01)


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
    steps = [r for r in result.rows if r.published.phase == "step"]
    known = {r.published.published_s: r.mid_s for r in steps if r.published.scenario.model.name == "Qwen3-32B"}
    for row in scored["rows"]:
        assert row["predicted_mid_s"] == pytest.approx(known[row["published_s"]])


@pytest.mark.parametrize(
    ("change", "said"), [("avg_seq", "avg_seq"), ("gpu", "no profile"), ("algorithm", "algorithm")]
)
def test_a_row_that_says_too_little_is_skipped(change: str, said: str) -> None:
    row = next(r for r in read_rows() if set_of(r) == "held_out")
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
        [_log(r.ratio) for r in result.rows if (r.published.phase, r.published.set) == ("step", "calibration")][:2],
        abs=1e-9,
    )


def _log(value: float) -> float:
    import math

    return math.log(value)
