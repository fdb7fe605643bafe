"""Break-even: the price per GPU-hour below which one system's step is cheaper than another's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..compare import compare
from ..phase import DoesNotFitError
from ..scenario import Scenario
from ..scenario_file import load_scenario

DEFAULT_SYSTEM = "vera-rubin-nvl72"


def break_even(
    scenario: Scenario | str | Path,
    system: str = DEFAULT_SYSTEM,
    against: Sequence[str] | None = None,
    run: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Return one row per other system: ratios of time and money, the break-even price, and the verdict.

    ``verdict`` is ``wins`` or ``loses`` where even the unfavourable end of the dollar ratio agrees, else ``open``.
    ``problem`` says why two systems cannot be compared.
    """
    chosen = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    rows: list[dict[str, Any]] = []
    for other in against or [name for name in chosen.systems if name != system]:
        try:
            made = compare(chosen, system, other, run)
        except DoesNotFitError as error:
            rows.append({"scenario": chosen.name, "system": system, "against": other, "problem": str(error)})
            continue
        verdict = "wins" if made.usd_ratio.high < 1.0 else "loses" if made.usd_ratio.low > 1.0 else "open"
        rows.append({**made.as_dict(), "verdict": verdict})
    return rows
