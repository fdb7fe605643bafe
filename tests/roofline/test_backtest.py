"""The backtest on a sample of measured rows: errors, bands, and a target that never teaches itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from roofcast.cli.main import app
from roofcast.roofline.silicon import silicon_gpu
from roofcast.roofline.transfer import NothingInCommonError, backtest, calibrate, noise_floor
from roofcast.roofline.transfer.conformal import Bands, bands, weighted_quantile
from roofcast.roofline.transfer.pairs import HELD_OUT, teaching_pairs
from roofcast.roofline.transfer.score import score
from typer.testing import CliRunner

pytestmark = pytest.mark.usefixtures("silicon")
KEYS = {"operator_class", "groups", "n", "median_abs_error", "p90_abs_error", "bias", "coverage", "band_ratio"}


@pytest.mark.parametrize("family", ["hopper", "ada", "ampere", "rtx_blackwell", "blackwell"])
def test_a_target_never_teaches_itself(family: str) -> None:
    for pair in teaching_pairs(family):
        assert family not in {silicon_gpu(name).family for name in pair}


def test_held_out_gpus_teach_only_what_comes_after_them() -> None:
    assert not {name for pair in teaching_pairs("blackwell") for name in pair} & set(HELD_OUT)
    after = teaching_pairs("rubin", held_out=True)
    assert ("h200", "b200") in after
    assert not any(source in HELD_OUT for source, _ in after)


def test_zero_shot_beats_both_baselines() -> None:
    found = backtest("h200", "b200")
    total = found.rows[-1]
    assert set(total) == KEYS
    assert total["operator_class"] == "all"
    assert total["median_abs_error"] < 0.9 * found.baselines["plain carry"][-1]["median_abs_error"]
    assert total["median_abs_error"] < 0.5 * found.baselines["datasheet roof"][-1]["median_abs_error"]


def test_the_band_holds_what_it_says() -> None:
    total = backtest("h200", "b200").rows[-1]
    # 80 % is claimed; the sample has some 30 kernel groups.
    assert 0.65 <= total["coverage"] <= 0.95
    assert 1.2 < total["band_ratio"] < 4.0


def test_anchors_narrow_the_band_and_the_error() -> None:
    before, after = backtest("h200", "b200").rows[-1], backtest("h200", "b200", anchors=8)
    line = after.rows[-1]
    assert line["median_abs_error"] < before["median_abs_error"]
    assert line["band_ratio"] < before["band_ratio"]
    assert line["n"] == before["n"] - after.predicted.anchored.sum()


def test_within_an_architecture_errors_are_small() -> None:
    found = backtest("h100", "h200")
    assert found.basis == "same_architecture"
    assert found.rows[-1]["median_abs_error"] < 0.1


def test_the_times_on_the_target_do_not_change_its_zero_shot_projection() -> None:
    from roofcast.roofline.transfer import pairs
    from roofcast.roofline.transfer.predict import predict

    both = pairs.matched("h200", "b200")
    slow = both.assign(target_s=both["target_s"] * 7)
    speeds = pairs.gpu_speeds("h200"), pairs.gpu_speeds("b200")
    first, second = (predict(rows, *speeds, calibrate("blackwell")).mid_s for rows in (both, slow))
    np.testing.assert_array_equal(first, second)


def test_the_calibration_survives_plain_values() -> None:
    made = calibrate("blackwell")
    again = type(made).from_dict(json.loads(json.dumps(made.as_dict())))
    assert again.as_dict() == made.as_dict()
    assert again.anchored_ends(16) == made.anchored_ends(16)


def test_groups_count_once_whatever_their_size() -> None:
    rows = pd.DataFrame({"operator_class": "x", "group": ["a"] * 98 + ["b"] * 2})
    measured = np.ones(100)
    predicted = np.r_[np.full(98, 1.1), np.full(2, 1.5)]
    line = score(rows, measured, predicted, 0.9 * predicted, 1.0 * predicted)[-1]
    assert line["groups"] == 2
    assert line["median_abs_error"] == pytest.approx((0.1 + 0.5) / 2)
    assert line["coverage"] == pytest.approx(0.5)
    assert line["band_ratio"] == pytest.approx(1 / 0.9)


def test_the_band_is_the_spread_of_the_errors_taught() -> None:
    rng = np.random.default_rng(0)
    n = 4000
    errors = pd.DataFrame(
        {
            "basis": "next_generation",
            "pair": "a>b",
            "operator_class": "x",
            "size": 2,
            "weight": 1.0,
            "error": rng.standard_normal(n),
        }
    )
    made = bands(errors)
    low, high = made.of("next_generation", pd.Series(["x", "unseen"]), np.array([2, 2]))
    assert np.log(high) == pytest.approx([1.2816, 1.2816], abs=0.1)
    assert np.log(low) == pytest.approx([-1.2816, -1.2816], abs=0.1)


def test_a_basis_that_one_pair_taught_is_widened_by_the_others() -> None:
    def rows(basis: str, pair: str, spread: float) -> pd.DataFrame:
        error = np.linspace(-spread, spread, 200)
        kept = {"basis": basis, "pair": pair, "operator_class": "x", "size": 0, "weight": 1.0}
        return pd.DataFrame({"error": error, **kept})

    narrow = rows("same_architecture", "a>b", 0.1)
    alone, mixed = bands(narrow), bands(pd.concat([narrow, rows("downward", "a>c", 1.0)]))

    def width(made: Bands) -> float:
        low, high = made.of("same_architecture", pd.Series(["x"]), np.array([0]))
        return float(np.log(high / low)[0])

    assert width(mixed) > 1.5 * width(alone)


def test_a_quantile_follows_its_weights() -> None:
    assert weighted_quantile(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 8.0]), 0.5) == 3.0
    assert weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 8.0, 1.0]), 0.5) == 1.0


def test_one_version_has_no_noise_floor() -> None:
    assert noise_floor("h200") == []


def test_nothing_in_common_names_what_there_is() -> None:
    with pytest.raises(NothingInCommonError, match=r"linear\.gemm"):
        backtest("h200", "b200", operator="moe.routing")
    with pytest.raises(NothingInCommonError, match="two different"):
        backtest("h200", "h200-sxm")


def test_the_command_prints_the_rows() -> None:
    result = CliRunner().invoke(app, ["backtest", "--pair", "H200:B200", "--operator", "linear.gemm", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert {frozenset(line) for line in found["rows"]} == {frozenset(KEYS)}
    assert [line["operator_class"] for line in found["rows"]] == ["gemm.bf16", "gemm.fp8", "gemm.fp8_block", "all"]
    assert CliRunner().invoke(app, ["backtest", "--pair", "H200:B200", "--anchors", "4"]).exit_code == 0


def test_a_pair_without_two_names_is_refused() -> None:
    result = CliRunner().invoke(app, ["backtest", "--pair", "H200"])
    assert result.exit_code != 0
    assert "FROM:TO" in str(result.exception)


def test_the_document_holds_tables_and_a_figure(tmp_path: Path) -> None:
    from roofcast.roofline.transfer.document import write_document
    from roofcast.roofline.transfer.standard import StandardRun

    found = backtest("h200", "b200", operator="linear.gemm")
    text, figure = write_document(StandardRun((found,), {"b200": noise_floor("b200")}), tmp_path)
    written = text.read_text()
    assert f"**{found.rows[-1]['median_abs_error']:.1%}**" in written
    assert "plain carry" in written
    assert figure.stat().st_size > 10_000


def test_rows_that_are_all_alike_still_give_distinct_anchors() -> None:
    from roofcast.roofline.transfer.anchors import choose

    assert len(set(choose(np.zeros((40, 6)), 8).tolist())) == 8
