"""Whole steps among published rows, as scenarios."""

from __future__ import annotations

import re
from typing import Any

from .ground_truth import NotEnoughError, Published, model_of, needed, publish, split

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


def published_step(row: dict[str, str], *, any_set: bool = False) -> Published:
    """Return a row of type ``e2e_step`` as a scenario with its published seconds.

    Raises
    ------
    NotEnoughError
        If the row does not say enough.
    """
    needed(row, *_NEEDED)
    return publish(row, "step", _scenario(row), float(row["step_time_s"]), any_set=any_set)


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
        "model": model_of(row),
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
