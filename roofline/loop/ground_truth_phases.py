"""Single phases among published rows, as scenarios: weight syncs, microbatches of training, decode iterations."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from typing import Any

import numpy as np

from .ground_truth import DATA, NotEnoughError, Published, model_of, needed, publish, split, system_of
from .model import UnknownModelError, load_model
from .system import System
from .workloads import PRECISION_BYTES

_PRECISIONS = {"BF16": "bf16", "bf16": "bf16", "BF16->FP8": "fp8", "FP8": "fp8", "fp8": "fp8", "fp4": "nvfp4"}
_ANY = 1.0
_MLPERF_COLUMNS = {
    "step": "train_step_time",
    "exposed_rollout": "exposed_generation_time",
    "train": "policy_training_time",
    "weight_sync": "weight_sync_time",
}


def published_sync(row: dict[str, str], *, any_set: bool = False) -> Published:
    """Return the weight sync of a row.

    Raises
    ------
    NotEnoughError
        If model, GPUs or method are not stated.
    """
    needed(row, "weight_sync_s", "model", "gpu")
    method = next((m["method"] for m in split()["sync_methods"] if m["text"] in row["notes"]), None)
    if row["record_type"] == "e2e_step" and "MLPerf" in row["source"]:
        method = "broadcast"
    if method is None:
        raise NotEnoughError("does not state a method of weight sync that is modelled, or which share changed")
    precision = _precision(row["precision_gen"])
    training, generating, replica = _sync_gpus(row, precision)
    fields = {
        **_around(row, generating=generating, training=training),
        "precision": {"rollout": precision},
        "rollout": {"tensor": replica},
        "weight_sync": method,
    }
    return publish(row, "weight_sync", fields, float(row["weight_sync_s"]), any_set=any_set)


def _sync_gpus(row: dict[str, str], precision: str) -> tuple[int, int, int]:
    """GPUs that train, GPUs that generate, and those of one replica."""
    if found := re.match(r"(\S+)->(\S+);", row["notes"]):
        source, target = (dict(re.findall(r"([A-Z]+)(\d+)", side)) for side in found.groups())
        trained = int(source.get("PP", 1)) * int(source.get("DP", 1)) * max(_size(source, "TP"), _size(source, "EP"))
        replica = max(_size(target, "TP"), _size(target, "EP"))
        return trained, replica * int(target.get("DP", 1)), replica
    needed(row, "n_train_gpus", "n_gen_gpus")
    generating = int(float(row["n_gen_gpus"]))
    if found := re.match(r"TP(\d+)", row.get("gen_parallel", "")):
        return int(float(row["n_train_gpus"])), generating, int(found.group(1))
    taken = split()["assumptions"]
    usable = System.load(system_of(row)).memory_bytes * taken["replica_memory_share"]
    weights = _model(row).parameters * PRECISION_BYTES[precision]
    sizes = [n for n in range(1, generating + 1) if generating % n == 0 and n % taken["node_gpus"] == 0]
    replica = next((n for n in sizes if n * usable >= weights), None)
    if replica is None:
        raise NotEnoughError("does not state a replica that holds the weights")
    return int(float(row["n_train_gpus"])), generating, replica


def _size(parts: dict[str, str], name: str) -> int:
    return int(parts.get(name, 1))


def published_training(row: dict[str, str], *, any_set: bool = False) -> Published:
    """Return one microbatch of a trainer: forward, backward and the exchange of weights and gradients.

    Raises
    ------
    NotEnoughError
        If the row is not of that kind.
    """
    needed(row, "train_s", "model", "gpu", "n_gpus", "max_seq")
    if "Full" not in row["algorithm"]:
        raise NotEnoughError(f"trains {row['algorithm']}, not all weights")
    if "micro-batch" not in row["notes"]:
        raise NotEnoughError("does not state how many microbatches were trained")
    gpus, length = int(row["n_gpus"]), int(row["max_seq"])
    fields = {
        "model": _model(row).model_copy(update={"max_context": max(length, _model(row).max_context)}),
        "algorithm": {"prompts": gpus, "rollouts": 1, "policy_logprob": False},
        "lengths": _fixed(1.0, length - 1.0),
        "cluster": {"gpus": gpus},
        "train": {
            "microbatch_tokens": length,
            "recompute": "full" if "AC=Recompute" in row["train_parallel"] else "none",
            "shard": "full" if gpus > 1 else "optimizer",
        },
    }
    return publish(row, "train", fields, float(row["train_s"]), any_set=any_set)


def published_decode(row: dict[str, str], *, any_set: bool = False) -> Published:
    """Return the decoding of a row of ``inference_ground_truth.csv``; seconds per token that a user sees.

    Raises
    ------
    NotEnoughError
        If lengths, concurrency or layout are not stated, or it is not plain decoding.
    """
    needed(row, "isl", "osl", "concurrency", "median_tpot_ms", "parallel", "n_gpus")
    if row["scenario"] not in ("fixed seq len", "decode at position"):
        raise NotEnoughError(f"{row['scenario']}: how much of a prompt is cached is not stated")
    if row["spec_decode"] not in ("", "none"):
        raise NotEnoughError("decodes speculatively with an acceptance that is not stated")
    tensor, expert = _layout(row)
    fields = {
        "model": _model(row),
        "algorithm": {"prompts": int(float(row["concurrency"])), "rollouts": 1},
        "lengths": _fixed(float(row["isl"]), float(row["osl"])),
        "precision": {"rollout": _precision(row["precision"])},
        "cluster": {"gpus": int(row["n_gpus"])},
        "rollout": {"tensor": tensor, "expert": expert, "prefix_cache": False},
        # One replica: there is none that others wait for.
        "parameters": {"rollout.imbalance": 1.0},
    }
    return publish(row, "decode", fields, float(row["median_tpot_ms"]) / 1e3, any_set=any_set)


def _layout(row: dict[str, str]) -> tuple[int, int]:
    """Tensor and expert parallelism: ``tp8 ep8``, ``tep8`` (both), ``dep8`` (attention is data-parallel)."""
    gpus = int(row["n_gpus"])
    found = re.match(r"(tp|tep|dep)(\d+)(?:[ -]ep(\d+))?", row["parallel"])
    if found is None or int(found.group(2)) != gpus:
        raise NotEnoughError(f"layout {row['parallel']!r} is not of the form tp8, tep8, dep8 or tp8 ep8 on all GPUs")
    kind, expert = found.group(1), int(found.group(3) or 0)
    return (1, gpus) if kind == "dep" else (gpus, gpus if kind == "tep" else max(1, expert))


def inference_rows() -> list[dict[str, str]]:
    """Return the rows of ``inference_ground_truth.csv``."""
    with (DATA / "inference_ground_truth.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def step_spread() -> dict[str, float]:
    """Return by phase how far a single step of an MLPerf run is from the run's mean: the median share.

    From ``mlperf_rl_steps.csv`` without the first step of each run, which overlaps with nothing before it. No model of
    a mean step can be closer to single ones.
    """
    with (DATA / "mlperf_rl_steps.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["step"] != "1"]
    strayed = {}
    for phase, column in _MLPERF_COLUMNS.items():
        runs: dict[str, list[float]] = defaultdict(list)
        for row in rows:
            runs[row["log"]].append(float(row[column]))
        strayed[phase] = float(np.median([abs(t / np.mean(run) - 1.0) for run in runs.values() for t in run]))
    return strayed


def _around(row: dict[str, str], *, generating: int, training: int) -> dict[str, Any]:
    """Fields that a weight sync does not depend on, and its cluster."""
    return {
        "model": _model(row),
        "algorithm": {"prompts": generating, "rollouts": 1},
        "lengths": _fixed(_ANY, _ANY),
        "cluster": {"gpus": generating + training, "placement": "split", "rollout_gpus": generating},
    }


def _fixed(prompt: float, response: float) -> dict[str, Any]:
    return {
        "prompt": {"distribution": "fixed", "tokens": prompt},
        "response": {"distribution": "fixed", "tokens": response},
    }


def _model(row: dict[str, str]) -> Any:
    try:
        return load_model(model_of(row))
    except UnknownModelError:
        raise NotEnoughError("its model's shape is not built in") from None


def _precision(text: str) -> str:
    if text not in _PRECISIONS:
        raise NotEnoughError(f"precision {text or 'not stated'}")
    return _PRECISIONS[text]
