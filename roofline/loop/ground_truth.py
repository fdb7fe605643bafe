"""Published steps as scenarios: the rows of ``rl_ground_truth.csv`` that say enough to be predicted."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .scenario import Scenario
from .scenario_file import ScenarioError, make_scenario

_DATA = Path(__file__).parent / "data"
_MODELS = {
    "LLAMA3.1_8B": "Llama-3.1-8B",
    "DeepSeek V3": "DeepSeek-V3",
    "Qwen3-235B": "Qwen3-235B-A22B",
    "Qwen3-30B3A": "Qwen3-30B-A3B",
}
_SYSTEMS = {"H100": "h100-sxm", "H200": "h200-sxm", "B200": "b200-hgx", "GB200": "gb200-nvl72", "GB300": "gb300-nvl72"}
_NEEDED = (
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
class PublishedStep:
    """A published step: what ran, on which system, and the seconds that its source gives."""

    source: str
    place: str
    system: str
    scenario: Scenario
    step_time_s: float
    set: str
    why: str


@cache
def split() -> dict[str, Any]:
    """Return the split of rows into calibration and held out, and the assumptions for all of them."""
    import yaml

    return yaml.safe_load((_DATA / "split.yaml").read_text(encoding="utf-8"))


def read_rows(path: str | Path | None = None) -> list[dict[str, str]]:
    """Return the rows of a file with the columns of ``rl_ground_truth.csv``; default: the packaged one.

    Raises
    ------
    ScenarioError
        If the file cannot be read or lacks a column that is needed.
    """
    file = Path(path) if path else _DATA / "rl_ground_truth.csv"
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{file}: cannot be read ({error})") from None
    missing = [name for name in ("record_type", "source", *_NEEDED) if rows and name not in rows[0]]
    if missing or not rows:
        raise ScenarioError(f"{file}: {'has no rows' if not rows else 'lacks the columns ' + ', '.join(missing)}")
    return rows


def set_of(row: dict[str, str]) -> tuple[str, str]:
    """Return the set that a row belongs to (``calibration``, ``held_out`` or ````) and why."""
    for entry in split()["sets"]:
        if all(row.get(k) == v for k, v in entry.items() if k not in ("set", "why")):
            return entry["set"], entry["why"]
    return "", "in no set of split.yaml"


def published_step(row: dict[str, str], *, any_set: bool = False) -> PublishedStep:
    """Return a row as a scenario with its published seconds.

    Parameters
    ----------
    any_set
        Take rows that `split` does not list as held out (files of the user).

    Raises
    ------
    NotEnoughError
        If the row does not say enough.
    """
    if row["record_type"] != "e2e_step":
        raise NotEnoughError(f"{row['record_type']} is not a whole step")
    empty = [name for name in _NEEDED if not row[name]]
    if empty:
        raise NotEnoughError(f"does not state {', '.join(empty)}")
    chosen, why = set_of(row)
    if not chosen and any_set:
        chosen, why = "held_out", "given"
    if not chosen:
        raise NotEnoughError(why)
    system = _SYSTEMS.get(row["gpu"])
    if system is None:
        raise NotEnoughError(f"no profile of {row['gpu']}")
    try:
        scenario = make_scenario(_scenario(row))
    except ScenarioError as error:
        raise NotEnoughError(str(error)) from None
    return PublishedStep(
        row["source"], row.get("url_or_path", ""), system, scenario, float(row["step_time_s"]), chosen, why
    )


def _scenario(row: dict[str, str]) -> dict[str, Any]:
    taken = split()["assumptions"]
    policy = row.get("on_off_policy", "")
    if policy not in ("On policy", "1-step Off"):
        raise NotEnoughError(f"schedule {policy or 'not stated'}")
    if row.get("algorithm") != "GRPO":
        raise NotEnoughError(
            f"algorithm {row.get('algorithm') or 'not stated'}: how many sequences it discards is unknown"
        )
    tensor = int(_numbers(row["gen_parallel"])[0])
    t, c, e, p = (int(n) for n in _numbers(row["train_parallel"])[:4])
    gpus, longest = int(row["n_gpus"]), float(row["max_seq"])
    prompt = float(taken["prompt_tokens_long" if longest > taken["long_from_max_seq"] else "prompt_tokens"])
    off = policy == "1-step Off"
    training = int(float(row.get("n_train_gpus") or gpus / 2))
    sequences = int(float(row["gen_gbs"]))
    return {
        "name": "published",
        "model": _MODELS.get(row["model"], row["model"]),
        "algorithm": {
            "prompts": max(1, sequences // taken["rollouts_per_prompt"]),
            "rollouts": taken["rollouts_per_prompt"],
            "train_batch": int(float(row["train_gbs"])),
            "reference_model": True,
        },
        "lengths": {
            "prompt": {"distribution": "fixed", "tokens": prompt},
            "response": {
                "distribution": "lognormal",
                "mean": float(row["avg_seq"]) - prompt,
                "sigma": taken["sigma"],
                "max": longest - prompt - 100.0,
            },
        },
        "precision": {"rollout": "fp8" if row.get("precision_gen") == "FP8" else "bf16"},
        "cluster": {"gpus": gpus, **({"placement": "split", "rollout_gpus": gpus - training} if off else {})},
        "rollout": {"tensor": tensor},
        "train": {
            "tensor": t,
            "context": c,
            "expert": e,
            "pipeline": p,
            "microbatch_tokens": int(longest),
            "recompute": "full",
        },
        "schedule": "one_step_off" if off else "sync",
        "weight_sync": taken["split_weight_sync"] if off else "colocated",
    }


def _numbers(text: str) -> list[str]:
    """Return the numbers in ``TP,PP=[4,1]``."""
    inside = re.search(r"\[([^\]]*)\]", text)
    found = re.findall(r"\d+", inside.group(1)) if inside else []
    if not found:
        raise NotEnoughError(f"parallelism {text!r} is not of the form TP,PP=[4,1]")
    return found
