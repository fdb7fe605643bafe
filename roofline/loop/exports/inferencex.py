"""Generation as InferenceX writes it (``agg_*.json``), and its results read back.

One object per system: hardware, model, parallelism, concurrency and lengths; tokens per second and GPU; seconds per
token (``tpot``) and tokens per second and user (``intvty``). https://github.com/SemiAnalysisAI/InferenceX
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..cost import LoopCost
from ..scenario_file import ScenarioError

_NEEDED = ("hw", "model", "conc", "tput_per_gpu", "output_tput_per_gpu")


@dataclass(frozen=True)
class Result:
    """One result: what ran where, and the rates that it reached."""

    hw: str
    model: str
    precision: str
    tensor: int
    expert: int
    concurrency: int
    input_tokens: float | None
    output_tokens: float | None
    tokens_per_s_per_gpu: float
    output_tokens_per_s_per_gpu: float
    s_per_token: float | None

    def usd_per_million_output_tokens(self, usd_per_gpu_hour: float) -> float:
        """Return what a million generated tokens cost at a price per GPU-hour."""
        return usd_per_gpu_hour / 3600.0 / self.output_tokens_per_s_per_gpu * 1e6


def agg_results(cost: LoopCost) -> list[dict[str, Any]]:
    """Return the rollout phase of each system as InferenceX's fields; estimates say so in ``framework``."""
    s = cost.scenario
    made = []
    for row in cost.rows:
        if row["phase"] != "rollout":
            continue
        facts, seconds = row["provenance"]["facts"], row["time_mid_s"]
        generated = s.algorithm.sequences * s.lengths.response.mean
        read = s.algorithm.sequences * (s.lengths.prompt.mean + s.observations)
        gpus = s.cluster.generating
        per_token = seconds / max(facts["iterations"], 1.0)
        made.append(
            {
                "hw": row["system"],
                "model": s.model.name,
                "framework": "roofcast-estimate",
                "precision": s.precision.rollout,
                "tp": s.rollout.tensor,
                "ep": s.rollout.expert,
                "dp_attention": "true" if s.rollout.expert > s.rollout.tensor else "false",
                "conc": max(1, round(facts["mean_batch"])),
                "isl": round(s.lengths.prompt.mean),
                "osl": round(s.lengths.response.mean),
                "tput_per_gpu": (generated + read) / seconds / gpus,
                "output_tput_per_gpu": generated / seconds / gpus,
                "input_tput_per_gpu": read / seconds / gpus,
                "mean_tpot": per_token,
                "mean_intvty": 1.0 / per_token,
                "x_estimate": True,
                "x_scenario": s.name,
            }
        )
    return made


def write_agg(cost: LoopCost, path: Path) -> None:
    """Write one object for one system, a list for several."""
    made = agg_results(cost)
    path.write_text(json.dumps(made[0] if len(made) == 1 else made, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def read_agg(path: str | Path) -> list[Result]:
    """Return the results of a file: one object or a list of them.

    Raises
    ------
    ScenarioError
        If it cannot be read, or a field is missing or no number.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{path}: is not readable JSON ({error})") from None
    return [_result(item, f"{path}") for item in (data if isinstance(data, list) else [data])]


def _result(item: Any, path: str) -> Result:
    if not isinstance(item, dict):
        raise ScenarioError(f"{path}: is not a result of InferenceX; it is an object, or a list of objects")
    missing = [name for name in _NEEDED if item.get(name) is None]
    if missing:
        raise ScenarioError(f"{path}: is not a result of InferenceX; it lacks {', '.join(missing)}")

    def number(*names: str) -> float | None:
        for name in names:
            if item.get(name) not in (None, ""):
                try:
                    return float(item[name])
                except (TypeError, ValueError):
                    raise ScenarioError(f"{path}: {name} = {item[name]!r} is not a number") from None
        return None

    rates = {name: number(name) or 0.0 for name in ("tput_per_gpu", "output_tput_per_gpu")}
    if rates["output_tput_per_gpu"] <= 0:
        raise ScenarioError(f"{path}: output_tput_per_gpu must be above 0")
    return Result(
        hw=str(item["hw"]),
        model=str(item["model"]),
        precision=str(item.get("precision", "")),
        tensor=int(number("tp", "decode_tp") or 1),
        expert=int(number("ep", "decode_ep") or 1),
        concurrency=int(number("conc") or 1),
        input_tokens=number("isl"),
        output_tokens=number("osl"),
        tokens_per_s_per_gpu=rates["tput_per_gpu"],
        output_tokens_per_s_per_gpu=rates["output_tput_per_gpu"],
        s_per_token=number("median_tpot", "mean_tpot"),
    )
