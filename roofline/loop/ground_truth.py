"""Published times as scenarios: the rows of ``rl_ground_truth.csv`` that say enough to be predicted."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .scenario import Scenario
from .scenario_file import ScenarioError, make_scenario

DATA = Path(__file__).parent / "data"
_MODELS = {
    "LLAMA3.1_8B": "Llama-3.1-8B",
    "DeepSeek V3": "DeepSeek-V3",
    "DeepSeek-R1": "DeepSeek-V3",
    "DeepSeek-R1-0528-FP4": "DeepSeek-V3",
    "Kimi-K2 1T": "Kimi-K2",
    "Qwen3-235B": "Qwen3-235B-A22B",
    "Qwen3-30B3A": "Qwen3-30B-A3B",
    "Qwen3-30B-A3B-Instruct-2507": "Qwen3-30B-A3B",
    "Qwen3-30B-A3B EP8": "Qwen3-30B-A3B",
    "Qwen3.5-397B": "Qwen3.5-397B-A17B",
}
_SYSTEMS = {
    "A100/A800": "a100-sxm-80gb",
    "H100": "h100-sxm",
    "H100 (8-GPU nodes)": "h100-sxm",
    "H100/H200 class, 400 Gbps": "h100-sxm",
    "H100/H200 class, AWS EFA": "h100-sxm",
    "H200": "h200-sxm",
    "B200": "b200-hgx",
    "GB200": "gb200-nvl72",
    "GB300": "gb300-nvl72",
}
_COLUMNS = (
    "record_type",
    "source",
    "model",
    "gpu",
    "n_gpus",
    "max_seq",
    "avg_seq",
    "gen_gbs",
    "train_gbs",
    "gen_parallel",
    "train_parallel",
    "step_time_s",
)


class NotEnoughError(ValueError):
    """A row that does not say enough to be predicted; the message says what is missing."""


@dataclass(frozen=True)
class Published:
    """A published time: what ran, on which system, and the seconds that its source gives.

    Parameters
    ----------
    phase
        What took the time: ``step``, ``train``, ``weight_sync``, or ``decode`` (seconds per generated token).
    set
        ``calibration`` or ``held_out``.
    """

    phase: str
    source: str
    place: str
    system: str
    scenario: Scenario
    published_s: float
    set: str


@cache
def split() -> dict[str, Any]:
    """Return the split of rows into calibration and held out, and the assumptions for all of them."""
    import yaml

    return yaml.safe_load((DATA / "split.yaml").read_text(encoding="utf-8"))


def read_rows(path: str | Path | None = None) -> list[dict[str, str]]:
    """Return the rows of a file with the columns of ``rl_ground_truth.csv``; default: the packaged one.

    Raises
    ------
    ScenarioError
        If the file cannot be read or lacks a column that is needed.
    """
    file = Path(path) if path else DATA / "rl_ground_truth.csv"
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{file}: cannot be read ({error})") from None
    missing = [name for name in _COLUMNS if rows and name not in rows[0]]
    if missing or not rows:
        raise ScenarioError(f"{file}: {'has no rows' if not rows else 'lacks the columns ' + ', '.join(missing)}")
    return rows


def set_of(row: dict[str, str], phase: str = "step") -> str:
    """Return the set that a row belongs to: ``calibration``, ``held_out``, or nothing."""
    for entry in split()["sets"]:
        if entry.get("phase", "step") == phase and all(
            row.get(k) == v for k, v in entry.items() if k not in ("set", "why", "phase")
        ):
            return entry["set"]
    return ""


def publish(
    row: dict[str, str], phase: str, fields: dict[str, Any], published_s: float, *, any_set: bool = False
) -> Published:
    """Return a row as a published time of the scenario that ``fields`` describe.

    Parameters
    ----------
    any_set
        Take rows that `split` does not list as held out (files of the user).

    Raises
    ------
    NotEnoughError
        If no set lists the row, its GPU has no profile, or the fields are not possible together.
    """
    chosen = set_of(row, phase) or ("held_out" if any_set else "")
    if not chosen:
        raise NotEnoughError(f"{phase} is in no set of split.yaml")
    system = system_of(row)
    # Times alone are compared, and not every profile states a price.
    unpriced = {"gpu_per_hour": {system: "1 USD/h"}}
    try:
        scenario = make_scenario({"name": "published", "prices": unpriced, **fields})
    except ScenarioError as error:
        raise NotEnoughError(str(error)) from None
    return Published(phase, row["source"], row.get("url_or_path", ""), system, scenario, published_s, chosen)


def system_of(row: dict[str, str]) -> str:
    """Return the profile of a row's GPU.

    Raises
    ------
    NotEnoughError
        If there is none.
    """
    if row["gpu"] not in _SYSTEMS:
        raise NotEnoughError(f"no profile of {row['gpu'] or 'a GPU that is not stated'}")
    return _SYSTEMS[row["gpu"]]


def model_of(row: dict[str, str]) -> str:
    """Return the built-in name of a row's model, whoever published it."""
    name = row["model"].rsplit("/", 1)[-1]
    return _MODELS.get(name, name)


def needed(row: dict[str, str], *columns: str) -> None:
    """Check that a row states some columns.

    Raises
    ------
    NotEnoughError
        If it does not, naming them.
    """
    empty = [name for name in columns if not row.get(name)]
    if empty:
        raise NotEnoughError(f"does not state {', '.join(empty)}")
