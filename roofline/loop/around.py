"""The phases around generation and training: reward, weight sync, and what no phase uses."""

from __future__ import annotations

import math

import numpy as np

from .phase import Context, Phase, Term, parameter_term
from .workloads import PRECISION_BYTES, expert_bytes


def reward_phase(context: Context) -> Phase:
    """Return verification: what of it shows after the last sequence has ended, and the sandbox hours."""
    s, r = context.scenario, context.scenario.reward
    waves = math.ceil(s.algorithm.sequences / r.concurrency)
    shown = r.seconds if r.overlapped else waves * r.seconds
    hours = s.algorithm.sequences * (r.seconds + s.rollout.turns * s.rollout.tool_seconds) / 3600.0
    formula = "seconds of the last sequence" if r.overlapped else "ceil(sequences / concurrency) x seconds"
    phase = Phase(
        "reward", [Term("verification", np.full((1, 1), shown), "scenario", "sandbox", formula, ("the scenario",))]
    )
    share = r.active_share if r.billing == "active" else 1.0
    phase.facts = {
        "sandbox_hours": hours,
        "vcpu_hours": hours * r.vcpus * share,
        "gib_hours": hours * r.memory / 2**30,
        "peak_vcpus": min(s.algorithm.sequences, r.concurrency) * r.vcpus,
    }
    return phase


def sync_bytes(context: Context) -> float:
    """Return bytes of one copy of the weights in the rollout precision."""
    m, precision = context.scenario.model, context.scenario.precision.rollout
    other = m.parameters - m.expert_parameters
    return other * PRECISION_BYTES[precision] + m.expert_parameters * expert_bytes(m, precision)


def sync_phase(context: Context) -> Phase:
    """Return the move of new weights from the trainer to generation: fixed time, and bytes over the narrower side."""
    s, inputs = context.scenario, context.inputs
    copy = sync_bytes(context)
    replicas = s.cluster.generating / s.rollout.replica
    link = "scaleup" if s.weight_sync == "colocated" else "nic"
    if s.weight_sync == "colocated":
        sent, links, formula = copy * replicas, float(s.cluster.gpus), "every GPU receives its shard"
    elif s.weight_sync == "peer_to_peer":
        sent, links = copy * replicas, float(min(s.cluster.training, s.cluster.generating))
        formula = "all replicas' bytes over the narrower side's links"
    else:
        share = s.delta_share if s.weight_sync == "delta" else 1.0
        way = 2.0 if s.weight_sync == "object_store" else 1.0
        sent, links = copy * share * way, float(min(s.cluster.training, s.rollout.replica))
        formula = "one copy through the narrower of trainer and replica; further replicas receive it in a pipeline"
    rate = context.times.link_rate(link, inputs) * inputs("sync.link_efficiency") * links
    phase = Phase("weight_sync")
    phase.add(parameter_term(context, "sync overhead", "sync.fixed_s", inputs("sync.fixed_s"), "per sync"))
    item = inputs.by_name["sync.link_efficiency"]
    phase.add(
        Term(
            "bytes",
            sent / rate,
            "specification_only",
            f"link.{link}",
            f"{sent / 1e9:.4g} GB / ({links:g} links x rate x efficiency): {formula}",
            (f"{item.origin}: {item.source}",),
            "parameters.yaml sync.link_efficiency",
        )
    )
    phase.facts = {"bytes": sent, "links": links, "method": s.weight_sync}
    return phase
