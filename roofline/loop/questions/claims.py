"""Claims: what vendors say of Vera Rubin, with their conditions, beside what the model says under the same ones.

The model is not a referee: it knows kernels' ceilings and today's frameworks, not a vendor's software of tomorrow.
Two claims have no figure of cost at all; they stand here so that nobody takes them for one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ..around import sync_phase
from ..change import changed
from ..compare import phase_ratio
from ..cost import loop_cost, make_context
from ..inputs import Band
from ..scenario import Scenario
from ..scenario_file import load_scenario, make_scenario
from ..system import System
from .plan import fewest_gpus
from .serving import cheapest, points

BLACKWELL, RUBIN = "gb200-nvl72", "vera-rubin-nvl72"
_MONTH_S = 30 * 86400.0
_TRAINED_TOKENS = 100e12
# USD per GPU-hour of one series: SemiAnalysis, July 2026.
_SERIES = {BLACKWELL: 1.84, RUBIN: 3.57}
_INTERACTIVITIES = (20.0, 40.0, 60.0)
_SWE = "nemotron-3-ultra-swe"


def claims() -> list[dict[str, Any]]:
    """Return one row per claim.

    ``model`` has low, mid and high of the claimed quantity where the model gives it, else none; ``says`` puts it into
    words; ``verdict`` is ``within the band``, ``outside the band`` or ``no figure to compare``.
    """
    import yaml

    text = (Path(__file__).parents[1] / "data" / "claims.yaml").read_text(encoding="utf-8")
    rows = []
    for entry in yaml.safe_load(text)["claims"]:
        band, says = _ANSWERS[entry["id"]]()
        model = {"low": band.low, "mid": band.mid, "high": band.high} if band else None
        rows.append({**entry, "model": model, "says": says, "verdict": _verdict(entry["value"], band)})
    return rows


def _verdict(claimed: float | None, band: Band | None) -> str:
    if claimed is None or band is None:
        return "no figure to compare"
    return "within the band" if band.low <= claimed <= band.high else "outside the band"


def training_scenario() -> Scenario:
    """Return pretraining of the claim's model as a training phase: 33.6e6 tokens a step on 4096 GPUs."""
    return make_scenario(
        {
            "name": "claim-training",
            "model": {
                "name": "10T mixture of experts",
                "hidden": 12288,
                "vocab": 200000,
                "max_context": 16384,
                "attention": {"kind": "gqa", "layers": 96, "q_heads": 96, "kv_heads": 8, "head_dim": 128},
                "moe": {"layers": 96, "experts": 512, "top_k": 8, "inter": 5632, "shared_inter": 5632},
            },
            "algorithm": {"prompts": 4096, "rollouts": 1, "policy_logprob": False},
            "lengths": {
                "prompt": {"distribution": "fixed", "tokens": 1},
                "response": {"distribution": "fixed", "tokens": 8191},
            },
            "precision": {"rollout": "nvfp4", "train": "nvfp4", "cache": "bf16"},
            "cluster": {"gpus": 4096},
            "rollout": {"tensor": 8, "expert": 64},
            "train": {"tensor": 8, "pipeline": 8, "expert": 64, "microbatch_tokens": 8192, "shard": "full"},
        }
    )


def _training() -> tuple[Band | None, str]:
    scenario = training_scenario()
    needed = {}
    for name in (BLACKWELL, RUBIN):
        cost = loop_cost(scenario, [name])
        train = next(row for row in cost.rows if row["phase"] == "train")
        needed[name] = train["time_mid_s"] * scenario.cluster.gpus * _TRAINED_TOKENS / scenario.tokens / _MONTH_S
    band = phase_ratio(scenario, RUBIN, BLACKWELL, "train")
    return band, (
        f"{band.mid:.2g} ({band.low:.2g} to {band.high:.2g}) GPUs of Rubin per GPU of GB200; in a month "
        f"{needed[BLACKWELL] / 1e3:.0f}K of GB200 or {needed[RUBIN] / 1e3:.0f}K of Rubin, as efficient as RL trainers"
    )


@cache
def _serving() -> tuple[tuple[float, float, str], ...]:
    """Ratio of USD per token at each interactivity, with the layouts."""
    scenario = make_scenario(
        {
            "name": "claim-serving",
            "model": "Kimi-K2",
            "algorithm": {"prompts": 1, "rollouts": 1},
            "lengths": {
                "prompt": {"distribution": "fixed", "tokens": 32768},
                "response": {"distribution": "fixed", "tokens": 8192},
            },
            "precision": {"rollout": "nvfp4", "cache": "fp8"},
            "cluster": {"gpus": 1},
        }
    )
    found = {name: list(points(scenario, name, _SERIES[name])) for name in (BLACKWELL, RUBIN)}
    made = []
    for target in _INTERACTIVITIES:
        old, new = (cheapest(found[name], target) for name in (BLACKWELL, RUBIN))
        if old is None or new is None:
            continue
        ratio = new.usd_per_million_tokens / old.usd_per_million_tokens
        made.append(
            (target, ratio, f"{old.usd_per_million_tokens:.3g} against {new.usd_per_million_tokens:.3g} USD per 1e6")
        )
    return tuple(made)


def _tokens() -> tuple[Band | None, str]:
    made = _serving()
    ratios = sorted(ratio for _, ratio, _ in made)
    # The interactivity is not stated, so the range over interactivities is the band; the middle is the middle one.
    band = Band(ratios[0], ratios[len(ratios) // 2], ratios[-1])
    each = "; ".join(f"{ratio:.2g} at {target:.0f} tokens/s per user ({text})" for target, ratio, text in made)
    return band, f"{each}: {1 / band.high:.2g}x to {1 / band.low:.2g}x lower, the range over interactivities"


def _sync() -> tuple[Band | None, str]:
    scenario = make_scenario(
        {
            "name": "claim-sync",
            "model": "Kimi-K2",
            "algorithm": {"prompts": 64, "rollouts": 16},
            "lengths": {
                "prompt": {"distribution": "fixed", "tokens": 1000},
                "response": {"distribution": "fixed", "tokens": 8000},
            },
            "precision": {"rollout": "fp8"},
            "cluster": {"gpus": 256, "placement": "split", "rollout_gpus": 128},
            "rollout": {"expert": 16},
            "train": {"pipeline": 4, "expert": 32},
            "schedule": "one_step_off",
            "weight_sync": "peer_to_peer",
        }
    )
    context = make_context(scenario, System.load(BLACKWELL))
    phase = sync_phase(context)
    band = context.inputs.band(phase.seconds)
    return band, (
        f"{band.mid:.2g} s ({band.low:.2g} to {band.high:.2g}) on GB200 NVL72: "
        f"{phase.facts['bytes'] / 1e12:.3g} TB for 8 replicas over 128 links, and the fixed part"
    )


def _cpu() -> tuple[Band | None, str]:
    base = load_scenario("glm-4.5-air-agentic")
    steps = {cpu: loop_cost(changed(base, {"reward.cpu": cpu}), [RUBIN]).step(RUBIN) for cpu in ("x86", "vera")}
    time, usd, hours = (
        steps["vera"][name] / steps["x86"][name] - 1.0 for name in ("time_mid_s", "usd_mid", "vcpu_hours")
    )
    return None, (
        f"an input here, not a result: taken as 1.3, a step of {base.name} on {RUBIN} changes by {time:+.1%} in time, "
        f"{usd:+.1%} in dollars and {hours:+.0%} in vCPU-hours"
    )


def _accuracy() -> tuple[Band | None, str]:
    step = loop_cost(_SWE, [RUBIN]).step(RUBIN)
    return None, (
        f"no cost figure to compare; one step of {_SWE} on {step['gpus']} GPUs of {RUBIN} is {step['usd_mid']:.3g} USD "
        f"({step['usd_low']:.3g} to {step['usd_high']:.3g}), and how many steps reach 71.7 % is not published"
    )


def _size() -> tuple[Band | None, str]:
    fewest = fewest_gpus(_SWE, RUBIN)
    return None, f"no cost figure to compare; {fewest} GPUs of {RUBIN} hold {_SWE} at the fewest"


_ANSWERS: dict[str, Callable[[], tuple[Band | None, str]]] = {
    "training-gpus": _training,
    "cost-per-token": _tokens,
    "weight-sync": _sync,
    "vera-cpu": _cpu,
    "swe-bench": _accuracy,
    "parameters-550b": _size,
}
