"""What if: one field of a scenario at several values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..change import changed
from ..cost import loop_cost
from ..scenario import Scenario
from ..scenario_file import ScenarioError, load_scenario

_KEPT = ("time", "gpu_hours", "kwh", "usd", "usd_per_million_tokens")


def parse_change(text: str) -> tuple[str, list[Any]]:
    """Return field and values of ``cluster.gpus=32,64`` or ``model=[Qwen3-8B, Qwen3-32B]``; values are YAML.

    Raises
    ------
    ScenarioError
        If there is no field or no value.
    """
    import yaml

    field, equals, values = text.partition("=")
    if not equals or not field.strip() or not values.strip():
        raise ScenarioError(f"{text}: is not FIELD=VALUE[,VALUE...]; write it like cluster.gpus=32,64,128")
    try:
        read = yaml.safe_load(f"[{values}]")
    except yaml.YAMLError as error:
        raise ScenarioError(f"{text}: the values are not YAML ({getattr(error, 'problem', error)})") from None
    if len(read) == 1 and isinstance(read[0], list):
        read = read[0]
    return field.strip(), read


def what_if(
    scenario: Scenario | str | Path,
    field: str,
    values: Sequence[Any],
    systems: Sequence[str] | None = None,
    run: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Return one row per value and system: step time, GPU-hours, energy and money with bands.

    ``problem`` says why a value is not possible; the other columns are then absent.

    Raises
    ------
    ScenarioError
        If the field does not exist, or no value is possible.
    """
    base = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    rows, reasons = [], []
    for value in values:
        try:
            made = changed(base, {field: value})
        except ScenarioError as error:
            reasons.append(str(error))
            rows += [_refused(field, value, name, str(error)) for name in systems or base.systems]
            continue
        cost = loop_cost(made, systems or base.systems, run)
        rows += [_row(field, value, step) for step in cost.rows if step["phase"] == "step"]
        rows += [_refused(field, value, name, why) for name, why in cost.problems.items()]
    if len(reasons) == len(values):
        raise ScenarioError(reasons[0])
    return rows


def _row(field: str, value: Any, step: dict[str, Any]) -> dict[str, Any]:
    bands = {k: v for k, v in step.items() if k.startswith(_KEPT)}
    return {"field": field, "value": value, "system": step["system"], **bands, "bound_by": step["bound_by"]}


def _refused(field: str, value: Any, system: str, why: str) -> dict[str, Any]:
    return {"field": field, "value": value, "system": system, "problem": why}


def possible(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that have a result."""
    return [row for row in rows if "problem" not in row]
