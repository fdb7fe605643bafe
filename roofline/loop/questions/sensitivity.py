"""Sensitivity: what each uncertain input does to a step's time or money on one system."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from ..cost import make_context, run_step
from ..money import bill
from ..scenario import Scenario
from ..scenario_file import load_scenario
from ..system import System


def sensitivity(
    scenario: Scenario | str | Path,
    system: str,
    result: Literal["usd", "time_s"] = "usd",
    run: str | Path | None = None,
) -> dict[str, Any]:
    """Return the result at the middle and one row per uncertain input, the widest swing first.

    A row has the input's range with unit, origin and source, the result with the input at its ``low`` and its
    ``high`` end (all others at their middle), and the swing: the larger of the two over the smaller, less 1.

    Raises
    ------
    DoesNotFitError
        If the system cannot run the scenario.
    """
    chosen = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    context = make_context(chosen, System.load(system), run)
    phases, step = run_step(context)
    used = {name: phases["reward"].facts[name] for name in ("vcpu_hours", "gib_hours")}
    whole = bill(context, step.seconds * chosen.cluster.gpus / 3600.0, **used)
    inputs = context.inputs
    rows = []
    for row in inputs.sensitivity(whole.usd if result == "usd" else step.seconds):
        item = inputs.by_name[row["input"]]
        ends = sorted((row["lowered"], row["raised"]))
        if ends[1] <= ends[0]:
            continue
        rows.append(
            {
                "input": item.name,
                "input_low": item.low,
                "input_mid": item.mid,
                "input_high": item.high,
                "unit": item.unit,
                f"{result}_at_low": row["lowered"],
                f"{result}_at_high": row["raised"],
                "swing": ends[1] / ends[0] - 1.0,
                "origin": item.origin,
                "source": item.source,
                "note": item.note,
            }
        )
    mid = float((whole.usd if result == "usd" else step.seconds).reshape(-1)[0])
    return {"scenario": chosen.name, "system": context.system.name, "result": result, "mid": mid, "inputs": rows}
