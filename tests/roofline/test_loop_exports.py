"""Exports: a workbook that follows its assumptions, FOCUS rows that add up, InferenceX files, own hardware, runs."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from roofcast.roofline.loop import LoopCost, ScenarioError, load_scenario, loop_cost
from roofcast.roofline.loop.capital import HOURS_PER_YEAR, capital_price, hourly
from roofcast.roofline.loop.change import changed
from roofcast.roofline.loop.exports.columns import dictionary
from roofcast.roofline.loop.exports.focus import COLUMNS as FOCUS_COLUMNS
from roofcast.roofline.loop.exports.focus import focus_rows
from roofcast.roofline.loop.exports.inferencex import read_agg
from roofcast.roofline.loop.exports.write import write_cost
from roofcast.roofline.loop.figures import phase_bars
from roofcast.roofline.loop.money import PriceError
from roofcast.roofline.loop.rows import COLUMNS
from roofcast.roofline.loop.sections import Capital, LearningCurve
from roofcast.roofline.loop.system import System
from roofcast.roofline.loop.target import fit_curve, pass_rate, read_points, steps_to

SYSTEMS = ["gb300-nvl72", "vera-rubin-nvl72"]
# Columns that FOCUS 1.2 calls mandatory.
MANDATORY = {
    *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd"),
    *("BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodEnd"),
    *("ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost", "PricingQuantity"),
    *("PricingUnit", "ProviderName", "PublisherName", "ServiceCategory", "ServiceName"),
}


@pytest.fixture(scope="module")
def cost() -> LoopCost:
    return loop_cost("glm-4.5-air-agentic", SYSTEMS)


def test_tidy_files_hold_every_row_with_its_provenance(cost: LoopCost, tmp_path: Path) -> None:
    read: dict[str, Callable[[Path], Any]] = {"a.parquet": pd.read_parquet, "a.csv": pd.read_csv}
    for name, reader in read.items():
        frame = reader(write_cost(cost, tmp_path / name))
        assert list(frame.columns) == list(COLUMNS)
        assert len(frame) == len(cost.rows)
        assert json.loads(frame["provenance"][0])["terms"]
        assert frame["usd_mid"].tolist() == pytest.approx([row["usd_mid"] for row in cost.rows])
    whole = json.loads(write_cost(cost, tmp_path / "a.json").read_text())
    assert {row["system"] for row in whole["runs"]} == set(SYSTEMS)


def test_an_unknown_ending_and_a_folder_that_cannot_be_written_are_named(cost: LoopCost, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"\.xlsx"):
        write_cost(cost, tmp_path / "a.docx")
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="cannot be written"):
        write_cost(cost, tmp_path / "file" / "a.csv")
    with pytest.raises(Exception, match=r"\.png"):
        phase_bars(cost, tmp_path / "a.txt")


class Book:
    """A workbook's cells, recalculated: every formula here is sums, products and quotients of cells."""

    def __init__(self, path: Path) -> None:
        space = {"m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
        with zipfile.ZipFile(path) as file:
            names = [
                s.attrib["name"]
                for s in ElementTree.fromstring(file.read("xl/workbook.xml")).iterfind(".//m:sheet", space)
            ]
            strings = ElementTree.fromstring(file.read("xl/sharedStrings.xml"))
            texts = ["".join(item.itertext()) for item in strings.iterfind("m:si", space)]
            self.cells: dict[tuple[str, str], Any] = {}
            self.formulas: dict[tuple[str, str], str] = {}
            for number, name in enumerate(names, start=1):
                sheet = ElementTree.fromstring(file.read(f"xl/worksheets/sheet{number}.xml"))
                for cell in sheet.iterfind(".//m:c", space):
                    at, value = (name, cell.attrib["r"]), cell.find("m:v", space)
                    if value is not None and value.text is not None:
                        is_text = cell.attrib.get("t") == "s"
                        self.cells[at] = texts[int(value.text)] if is_text else float(value.text)
                    formula = cell.find("m:f", space)
                    if formula is not None and formula.text:
                        self.formulas[at] = formula.text

    def value(self, sheet: str, cell: str) -> Any:
        """Return a cell, worked out anew if it is a formula."""
        formula = self.formulas.get((sheet, cell))
        if formula is None:
            return self.cells[sheet, cell]

        def looked_up(match: re.Match[str]) -> str:
            return repr(self.value(match[1] or sheet, match[2].replace("$", "")))

        numbers = re.sub(r"(?:(\w+)!)?(\$?[A-Z]+\$?\d+)", looked_up, formula)
        assert re.fullmatch(r"[\d.e+\-*/()]+", numbers), numbers
        return eval(numbers)

    def find(self, sheet: str, text: str) -> int:
        """Return the row whose first cells hold a text."""
        return next(int(re.sub(r"\D", "", c)) for (s, c), v in self.cells.items() if s == sheet and v == text)


def test_the_workbook_recalculates_to_the_model_and_follows_a_price(cost: LoopCost, tmp_path: Path) -> None:
    book = Book(write_cost(cost, tmp_path / "a.xlsx"))
    for (sheet, cell), formula in book.formulas.items():
        assert book.value(sheet, cell) == pytest.approx(book.cells[sheet, cell], rel=1e-9), (sheet, cell, formula)
    for line, row in enumerate(cost.rows, start=2):
        for column, name in (("H", "usd_mid"), ("I", "usd_low"), ("J", "usd_high"), ("K", "kwh_mid")):
            assert book.value("Cost", f"{column}{line}") == pytest.approx(row[name], rel=1e-9)
    at = book.find("Totals", "vera-rubin-nvl72")
    step, run = cost.step("vera-rubin-nvl72"), book.value("Totals", f"C{at}")
    price = book.find("Assumptions", "price of vera-rubin-nvl72")
    book.cells["Assumptions", f"B{price}"] *= 2
    dearer = book.value("Totals", f"C{at}")
    gpus = step["gpu_hours_mid"] * step["provenance"]["price"]["mid"] * cost.scenario.algorithm.steps
    assert dearer - run == pytest.approx(gpus)
    # At the break-even price the two totals are one.
    against = book.find("Totals", "gb300-nvl72")
    book.cells["Assumptions", f"B{price}"] = book.value("Totals", f"H{at}")
    assert book.value("Totals", f"B{at}") == pytest.approx(book.value("Totals", f"B{against}"))


OFFICE = shutil.which("soffice") or shutil.which("libreoffice")


@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
def test_libreoffice_recalculates_the_workbook_to_the_same(cost: LoopCost, tmp_path: Path) -> None:
    path = write_cost(cost, tmp_path / "a.xlsx")
    assert OFFICE is not None
    profile = f"-env:UserInstallation=file://{tmp_path / 'profile'}"
    sheet = 'csv:"Text - txt - csv (StarCalc)":44,34,76,1,,0,false,true,false,false,false,2'
    subprocess.run(
        [OFFICE, profile, "--headless", "--convert-to", sheet, "--outdir", str(tmp_path / "out"), str(path)],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    with next((tmp_path / "out").glob("*.csv")).open(newline="") as stream:
        read = list(csv.DictReader(stream))
    for row, line in zip(cost.rows, read, strict=True):
        assert float(line["usd"]) == pytest.approx(row["usd_mid"], rel=1e-6)


def test_focus_rows_have_the_mandatory_columns_add_up_and_are_marked_as_estimates(cost: LoopCost) -> None:
    start = datetime(2026, 12, 31, 23, 59, 30, tzinfo=UTC)
    rows = list(focus_rows(cost, start))
    assert set(FOCUS_COLUMNS) >= MANDATORY
    for row in rows:
        assert set(row) == set(FOCUS_COLUMNS)
        assert row["x_Estimate"] == "true"
        assert row["ChargeCategory"] == "Usage"
        assert row["BilledCost"] == pytest.approx(row["PricingQuantity"] * row["ListUnitPrice"])
        assert row["x_CostLow"] <= row["BilledCost"] <= row["x_CostHigh"]
        assert row["BillingPeriodStart"] <= row["ChargePeriodStart"] < row["ChargePeriodEnd"]
        assert (row["BillingPeriodStart"], row["BillingPeriodEnd"]) == ("2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z")
    for system in SYSTEMS:
        billed = sum(row["BilledCost"] for row in rows if row["x_System"] == system)
        assert billed == pytest.approx(cost.step(system)["usd_mid"])
    assert {row["PricingUnit"] for row in rows} == {"GPU-hours", "vCPU-hours", "GiB-hours"}
    free = loop_cost(changed(cost.scenario, {"prices.own_sandboxes": True}), SYSTEMS[:1])
    assert sum(r["BilledCost"] for r in focus_rows(free)) == pytest.approx(free.step(SYSTEMS[0])["usd_mid"])


def test_inferencex_results_come_back_and_say_that_they_are_estimates(cost: LoopCost, tmp_path: Path) -> None:
    path = write_cost(cost, tmp_path / "agg_loop.json")
    assert all(item["x_estimate"] and item["framework"] == "roofcast-estimate" for item in json.loads(path.read_text()))
    results = read_agg(path)
    assert [r.hw for r in results] == SYSTEMS
    for result in results:
        row = next(r for r in cost.rows if r["system"] == result.hw and r["phase"] == "rollout")
        generated = cost.scenario.algorithm.sequences * cost.scenario.lengths.response.mean
        per_gpu = generated / row["time_mid_s"] / cost.scenario.cluster.generating
        assert result.output_tokens_per_s_per_gpu == pytest.approx(per_gpu)
        usd = result.usd_per_million_output_tokens(2.0)
        assert usd == pytest.approx(row["time_mid_s"] * cost.scenario.cluster.generating / 3600 * 2.0 / generated * 1e6)


@pytest.mark.parametrize(
    ("text", "word"),
    [("{", "JSON"), ("3", "object"), ('{"hw": "b200"}', "output_tput_per_gpu"),
     ('{"hw": "b", "model": "m", "conc": "x", "tput_per_gpu": 1, "output_tput_per_gpu": 1}', "conc = 'x'")],
)  # fmt: skip
def test_a_file_that_inferencex_did_not_write_is_named(text: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "agg_x.json").write_text(text)
    with pytest.raises(ScenarioError, match=word):
        read_agg(tmp_path / "agg_x.json")


def test_the_dictionary_of_columns_is_in_step_with_the_models() -> None:
    page = Path(__file__).parents[2] / "docs" / "loop-columns.md"
    assert page.read_text(encoding="utf-8") == dictionary(), "run python -m roofcast.roofline.loop.exports.columns"


def test_own_hardware_costs_what_an_annuity_says_and_contains_its_power_once() -> None:
    plain = Capital(years=4, residual_share=0, interest=0, utilization=1, around_share=0, operations_share=0)
    assert hourly(plain, 4 * HOURS_PER_YEAR, 0, 0.1) == pytest.approx(1.0)
    assert hourly(plain, 0, 2.0, 0.1) == pytest.approx(0.2)
    # The present value of what is paid, and of the residual, is the price.
    owned = Capital(years=3, residual_share=0.2, interest=0.1, utilization=1, around_share=0, operations_share=0)
    yearly = hourly(owned, 30_000, 0, 0) * HOURS_PER_YEAR
    assert sum(yearly / 1.1**n for n in (1, 2, 3)) + 0.2 * 30_000 / 1.1**3 == pytest.approx(30_000)
    scenario = changed(load_scenario("qwen3-30b-a3b-grpo-math"), {"prices.gpu": "capital"})
    step = loop_cost(scenario, ["gb300-nvl72"]).step("gb300-nvl72")
    dark = changed(scenario, {f"prices.capital.electricity.{end}": "0 USD/kWh" for end in ("low", "typical", "high")})
    saved = step["usd_mid"] - loop_cost(dark, ["gb300-nvl72"]).step("gb300-nvl72")["usd_mid"]
    share = scenario.prices.capital.electricity["typical"] / scenario.prices.capital.utilization
    assert saved == pytest.approx(step["kwh_mid"] * share, rel=1e-6)
    price = capital_price(scenario, System.load("vera-rubin-nvl72"))
    assert price.low < price.mid < price.high
    assert "USD/kWh" in price.source
    with pytest.raises(PriceError, match=r"prices\.capital\.purchase"):
        capital_price(scenario, System.load("b200-hgx"))


def test_all_in_prices_do_not_change_with_pue_or_electricity() -> None:
    base = load_scenario("qwen3-30b-a3b-grpo-math")
    changes = {"parameters.power.pue": 1.5, "prices.capital.electricity.typical": "0.15 USD/kWh"}
    for system in SYSTEMS:
        before, after = (loop_cost(s, [system]).step(system) for s in (base, changed(base, changes)))
        assert before["usd_mid"] == after["usd_mid"]


def test_a_learning_curve_is_found_again_and_gives_the_dollars_of_a_point(tmp_path: Path) -> None:
    curve = LearningCurve(start=0.2, ceiling=0.8, midpoint_steps=150, exponent=1.3)
    assert steps_to(curve, 0.5) == pytest.approx(150)
    assert pass_rate(curve, steps_to(curve, 0.7)) == pytest.approx(0.7)
    lines = [f"{steps},{pass_rate(curve, steps)}" for steps in range(0, 600, 40)]
    (tmp_path / "curve.csv").write_text("\n".join(["steps,pass_rate", *lines]))
    fitted = fit_curve(read_points(tmp_path / "curve.csv"))
    assert steps_to(fitted, 0.7) == pytest.approx(steps_to(curve, 0.7), rel=0.02)
    scenario = changed(
        load_scenario("qwen3-30b-a3b-grpo-math"), {"goal": {"pass_rate": 0.7, "curve": fitted.model_dump()}}
    )
    cost = loop_cost(scenario, ["gb300-nvl72"])
    run = cost.as_dict()["runs"][0]
    assert run["usd_mid"] == pytest.approx(cost.step("gb300-nvl72")["usd_mid"] * run["steps_mid"])
    assert run["usd_per_point_mid"] == pytest.approx(run["usd_mid"] / (100 * (0.7 - fitted.start)))
    with pytest.raises(ScenarioError, match="ceiling"):
        steps_to(curve, 0.8)
    with pytest.raises(ScenarioError, match="five points"):
        fit_curve([(1, 0.1), (2, 0.2)])
    (tmp_path / "bad.csv").write_text("steps,pass_rate\n1,x\n")
    with pytest.raises(ScenarioError, match=r"bad\.csv:2"):
        read_points(tmp_path / "bad.csv")
