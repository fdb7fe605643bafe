"""The loop on a real GPU's measured tables: factors by operator, their basis, and the commands that take them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from roofcast.cli.main import app
from roofcast.roofline.loop import loop_cost
from roofcast.roofline.loop.from_silicon import silicon_factors
from roofcast.roofline.loop.system import System
from roofcast.roofline.silicon import UnknownGpuError
from roofcast.roofline.tables import class_of_operator
from roofcast.roofline.transfer.classes import attained_roof, classified_rows
from typer.testing import CliRunner

pytestmark = pytest.mark.usefixtures("silicon")
SCENARIO = "qwen3-30b-a3b-grpo-math"


def test_a_factor_on_the_measured_gpu_is_that_of_its_fastest_kernels() -> None:
    system = System.load("h200-sxm")
    factors = silicon_factors("h200", system)
    rows = classified_rows("h200")
    rows = rows[(rows["operator"] == "attention.decode") & rows["precision"].astype(str).str.startswith("bf16")]
    rows = rows.loc[rows.groupby("workload", observed=True)["time_s"].idxmin()]
    kind = class_of_operator("attention.decode")
    roof = attained_roof(rows, system.target.attained["mid"])
    plain = [kind.stretch(r)[1] * (kind.floor(1) + r) for r in roof]
    want = float(np.exp(np.mean(np.log(rows["time_s"].to_numpy() / plain))))
    assert factors["attention.decode"].mid == pytest.approx(want, rel=1e-9)
    assert factors["attention.decode"].basis == "same_architecture"
    assert f"{len(rows):,} shapes" in factors["attention.decode"].reference


def test_bands_are_ordered_and_widen_with_the_distance() -> None:
    near, far = (silicon_factors("h200", System.load(name)) for name in ("b200-hgx", "vera-rubin-nvl72"))
    assert near.keys() == far.keys()
    assert {f.basis for f in near.values()} == {"next_generation"}
    assert {f.basis for f in far.values()} == {"two_generations"}
    for name, factor in near.items():
        assert factor.low < factor.mid < factor.high
        assert far[name].high / far[name].low > factor.high / factor.low


def test_the_loop_takes_them_and_says_so() -> None:
    plain, carried = loop_cost(SCENARIO, ["b200-hgx"]), loop_cost(SCENARIO, ["b200-hgx"], "silicon:h200")
    rollout = next(row for row in carried.rows if row["phase"] == "rollout")
    assert rollout["basis"] == "next_generation"
    assert "silicon:h200" in json.dumps(rollout["provenance"])
    ratio = carried.step("b200-hgx")["time_mid_s"] / plain.step("b200-hgx")["time_mid_s"]
    assert ratio != 1.0
    assert 0.5 < ratio < 2.0


@pytest.mark.parametrize(
    "command",
    [
        ["loop", SCENARIO, "--on", "b200", "--run", "silicon:h200"],
        ["loop", "silicon:h200", "--on", "b200"],
        ["what-if", SCENARIO, "cluster.gpus=32", "--on", "b200", "--run", "silicon:h200"],
        ["break-even", SCENARIO, "--on", "gb300", "--against", "b200", "--run", "silicon:h200"],
        ["sensitivity", SCENARIO, "--on", "b200", "--run", "silicon:h200"],
    ],
)
def test_commands(command: list[str]) -> None:
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    json.loads(done.stdout)


def test_an_unknown_gpu_is_refused() -> None:
    with pytest.raises(UnknownGpuError, match=r"no measured tables of 'v100'; did you mean h100"):
        loop_cost(SCENARIO, ["b200-hgx"], "silicon:v100")
