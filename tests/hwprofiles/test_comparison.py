"""Profiles side by side: one unit per row, ratios to the first, gaps and marks."""

import json

import pytest
from roofcast.hwprofiles import Gap, load
from roofcast.hwprofiles.comparison import Row, compare
from roofcast.hwprofiles.display import cell, common_scale, sentence, short, written
from roofcast.hwprofiles.summary import summaries


def _rows(*names: str) -> dict[str, Row]:
    return {row.label: row for row in compare([load(name) for name in names])}


def test_b200_gb300_rubin() -> None:
    rows = _rows("b200", "gb300", "rubin")
    assert rows["bandwidth"].cells() == ["7.67 (to 8)", "8", "19.2 (to 22)"]
    assert rows["bandwidth"].unit == "TB/s"
    assert rows["bandwidth"].ratios[2] == pytest.approx(19.2 / 7.67)
    assert rows["nvfp4 matrix"].ratios == pytest.approx((1.0, 15 / 9, 35 / 9))
    assert rows["int8 matrix"].cells() == ["4,500", "165", "250?"]
    assert rows["L2"].cells() == ["126.5", "126.5", "unknown"]
    assert rows["L2"].ratios[2] is None
    assert "cores" not in rows


def test_systems_stand_for_one_gpu_and_the_rack() -> None:
    rows = _rows("gb300-nvl72", "vera-rubin-nvl72", "b200")
    assert rows["GPUs"].cells() == ["72", "72", ""]
    assert rows["rack power"].unit == "kW"
    assert rows["purchase"].cells()[0] == "3,400 (to 4,000)?"
    assert rows["bandwidth"].cells()[1] == "19.2 (to 22)"


def test_rows_are_json() -> None:
    text = json.dumps([row.as_dict() for row in _rows("vera", "vera-cpu-rack", "rubin-cpx").values()], allow_nan=False)
    assert '"unknown"' in text


@pytest.mark.parametrize(
    ("unit", "values", "scale"),
    [
        ("bytes/s", [7.67e12, 19.2e12], (1e12, "TB/s")),
        ("bytes", [228 * 1024.0], (1024.0, "KiB")),
        ("bytes", [180e9], (1e9, "GB")),
        ("FLOP/s", [1.39e12, 37e12], (1e12, "TFLOP/s")),
        ("W", [700.0, 1800.0], (1.0, "W")),
        ("W", [132e3], (1e3, "kW")),
        ("s", [150e-9], (1e-9, "ns")),
        ("1", [148.0], (1.0, "")),
        ("USD/h", [2.3], (1.0, "USD/h")),
    ],
)
def test_scales(unit: str, values: list[float], scale: tuple[float, str]) -> None:
    assert common_scale(unit, values) == scale


def test_texts() -> None:
    rubin = load("rubin").figures()
    assert sentence(rubin["memory.dram.bandwidth"]) == "19.2 (to 22) TB/s"
    assert short(rubin["memory.dram.bandwidth"]) == "19.2 TB/s*"
    assert written(rubin["links.nvlink"]) == "1.5 (to 1.8) TB/s"
    assert written(rubin["compute.matrix.int8"]) == "0.25 POP/s?"
    assert written(load("gb300").figures()["compute.sms"]) == "152 (148-160)"
    assert written(Gap("unknown")) == "unknown"
    assert cell(None, 1.0) == ""


def test_summaries() -> None:
    rows = summaries(kind="system", vendor="nvidia")
    assert {"vera-rubin-nvl72", "gb300-nvl72"} <= {row.name for row in rows}
    assert all(row.figures and not row.problem for row in rows)
    with pytest.raises(LookupError, match="nvidia"):
        summaries(vendor="nvida")
    with pytest.raises(LookupError, match="gpu"):
        summaries(kind="gpus")
