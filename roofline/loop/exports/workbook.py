"""A workbook whose totals follow its assumptions: change a price in a spreadsheet program and the dollars change.

Sheets: ``Assumptions`` (prices, power, sequences, steps: the cells to change), ``Cost`` (one row per phase and system;
hours are numbers of the model, dollars and energy are formulas), ``Totals`` (step, run, rollout, million tokens, the
break-even price against each other system), ``Provenance`` (terms and sources) and ``Columns`` (what each column is).
Every formula is stored with its value, so a reader that does not recalculate shows the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..cost import LoopCost
from ..rows import COLUMNS
from ..scenario_file import ScenarioError

_COST_COLUMNS = (
    *("id", "system", "phase", "time_s", "gpu_hours", "vcpu_hours", "gib_hours"),
    *("usd", "usd_low", "usd_high", "kwh", "bound_by", "basis"),
)


def write_workbook(cost: LoopCost, path: Path) -> None:
    """Write the workbook.

    Raises
    ------
    ScenarioError
        If xlsxwriter is not installed.
    """
    try:
        import xlsxwriter
    except ImportError:
        raise ScenarioError(f"{path}: workbooks need xlsxwriter; run: pip install 'roofcast[xlsx]'") from None
    with xlsxwriter.Workbook(str(path)) as book:
        _Workbook(book, cost).write()


class _Workbook:
    def __init__(self, book: Any, cost: LoopCost) -> None:
        self.book, self.cost = book, cost
        self.bold = book.add_format({"bold": True})
        self.input = book.add_format({"bg_color": "#FFF2CC", "border": 1})
        self.wrap = book.add_format({"text_wrap": True, "valign": "top"})
        self.steps = {row["system"]: row for row in cost.rows if row["phase"] == "step"}
        self.cells: dict[str, str] = {}
        self.totals: dict[str, int] = {}

    def write(self) -> None:
        self._assumptions()
        self._cost()
        self._totals()
        self._provenance()
        self._columns()

    def _sheet(self, name: str, widths: tuple[int, ...], head: tuple[str, ...]) -> Any:
        sheet = self.book.add_worksheet(name)
        for column, width in enumerate(widths):
            sheet.set_column(column, column, width)
        sheet.write_row(0, 0, head, self.bold)
        sheet.freeze_panes(1, 0)
        return sheet

    def _assumptions(self) -> None:
        sheet = self._sheet(
            "Assumptions", (34, 14, 12, 12, 16, 90), ("assumption", "value", "low", "high", "unit", "source")
        )
        s, line = self.cost.scenario, 1

        def add(key: str, name: str, value: float, unit: str, source: str, ends: tuple[Any, Any] = ("", "")) -> None:
            nonlocal line
            sheet.write(line, 0, name)
            sheet.write_number(line, 1, value, self.input)
            sheet.write_row(line, 2, ends)
            sheet.write(line, 4, unit)
            sheet.write(line, 5, source)
            self.cells[key] = f"Assumptions!$B${line + 1}"
            line += 1

        for system, row in self.steps.items():
            price = row["provenance"]["price"]
            watts = row["kwh_mid"] / row["gpu_hours_mid"]
            ends = (price["low"], price["high"])
            add(f"price {system}", f"price of {system}", price["mid"], "USD per GPU-hour", price["source"], ends)
            power = f"{row['provenance']['energy']}: {row['provenance']['power']['source']}"
            add(f"power {system}", f"all-in power of {system}", watts, "kW per GPU", power)
        paid = 0.0 if s.prices.own_sandboxes else 1.0
        add("vcpu", "sandbox vCPU", s.prices.vcpu * paid, "USD per vCPU-hour", "the scenario")
        add("memory", "sandbox memory", s.prices.memory * paid, "USD per GiB-hour", "the scenario")
        add("sequences", "sequences per step", s.algorithm.sequences, "rollouts", "the scenario")
        add("tokens", "tokens per step", s.tokens, "tokens trained on", "the scenario")
        add(
            "steps",
            "steps of the run",
            s.algorithm.steps or 1,
            "steps",
            "the scenario" if s.algorithm.steps else "not given",
        )

    def _cost(self) -> None:
        sheet = self._sheet("Cost", (6, 18, 13, *(13,) * 8, 18, 20), _COST_COLUMNS)
        for line, row in enumerate(self.cost.rows, start=1):
            n, system = line + 1, row["system"]
            sheet.write_row(line, 0, (row["id"], system, row["phase"]))
            sheet.write_row(line, 3, (row["time_mid_s"], row["gpu_hours_mid"], row["vcpu_hours"], row["gib_hours"]))
            usd = f"=E{n}*{self.cells[f'price {system}']}+F{n}*{self.cells['vcpu']}+G{n}*{self.cells['memory']}"
            sheet.write_formula(line, 7, usd, None, row["usd_mid"])
            for column, end in ((8, "low"), (9, "high")):
                # The band as a share of the middle is the model's; it moves with the price.
                share = row[f"usd_{end}"] / row["usd_mid"] if row["usd_mid"] else 1.0
                sheet.write_formula(line, column, f"=H{n}*{float(share)!r}", None, row[f"usd_{end}"])
            sheet.write_formula(line, 10, f"=E{n}*{self.cells[f'power {system}']}", None, row["kwh_mid"])
            sheet.write_row(line, 11, (row["bound_by"], row["basis"]))
            if row["phase"] == "step":
                self.totals[system] = n

    def _totals(self) -> None:
        head = (
            "system",
            "USD per step",
            "USD per run",
            "USD per rollout",
            "USD per 1e6 tokens",
            "GPU-hours per run",
            "kWh per run",
        )
        others = tuple(f"break-even against {name}, USD per GPU-hour" for name in self.steps)
        sheet = self._sheet("Totals", (20, *(18,) * (6 + len(others))), (*head, *others))
        s, steps = self.cost.scenario, float(self.cost.scenario.algorithm.steps or 1)
        for line, (system, row) in enumerate(self.steps.items(), start=1):
            n, usd = self.totals[system], row["usd_mid"]
            sheet.write(line, 0, system)
            formulas = (
                (f"=Cost!H{n}", usd),
                (f"=Cost!H{n}*{self.cells['steps']}", usd * steps),
                (f"=Cost!H{n}/{self.cells['sequences']}", usd / s.algorithm.sequences),
                (f"=Cost!H{n}/{self.cells['tokens']}*1000000", usd / s.tokens * 1e6),
                (f"=Cost!E{n}*{self.cells['steps']}", row["gpu_hours_mid"] * steps),
                (f"=Cost!K{n}*{self.cells['steps']}", row["kwh_mid"] * steps),
            )
            for column, (formula, value) in enumerate(formulas, start=1):
                sheet.write_formula(line, column, formula, None, value)
            sandboxes = f"(Cost!F{n}*{self.cells['vcpu']}+Cost!G{n}*{self.cells['memory']})"
            paid = usd - row["gpu_hours_mid"] * row["provenance"]["price"]["mid"]
            for column, (other, theirs) in enumerate(self.steps.items(), start=7):
                if other != system:
                    formula = f"=(Cost!H{self.totals[other]}-{sandboxes})/Cost!E{n}"
                    sheet.write_formula(line, column, formula, None, (theirs["usd_mid"] - paid) / row["gpu_hours_mid"])

    def _provenance(self) -> None:
        head = ("row", "system", "phase", "term", "time_s", "low", "high", "basis", "bound_by", "formula", "sources")
        sheet = self._sheet("Provenance", (6, 18, 12, 22, 12, 12, 12, 18, 18, 80, 80), head)
        line = 1
        for row in self.cost.rows:
            for term in row["provenance"]["terms"]:
                times = (term["time_mid_s"], term["time_low_s"], term["time_high_s"])
                sheet.write_row(line, 0, (row["id"], row["system"], row["phase"], term["name"], *times))
                sheet.write_row(line, 7, (term["basis"], term["bound_by"]))
                # Text, not a formula: it may start with a sign that a spreadsheet would read as one.
                sheet.write_string(line, 9, term["formula"])
                sheet.write_string(line, 10, "; ".join(term["sources"]))
                line += 1

    def _columns(self) -> None:
        sheet = self._sheet("Columns", (30, 110), ("column", "meaning"))
        for line, (name, meaning) in enumerate(COLUMNS.items(), start=1):
            sheet.write_row(line, 0, (name, meaning), self.wrap)
