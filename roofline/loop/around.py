"""The phases around generation and training: reward, weight sync, and what no phase uses."""

from __future__ import annotations

import math

import numpy as np

from .phase import Context, Phase, Term, parameter_term
from .work import Array
from .workloads import PRECISION_BYTES, expert_bytes


def sandbox_speed(context: Context) -> Array:
    """Return the throughput of the sandboxes' CPU over that which the scenario's seconds are given for."""
    return context.inputs("reward.vera_factor") if context.scenario.reward.cpu == "vera" else np.ones((1, 1))


def reward_phase(context: Context) -> Phase:
    """Return verification: what of it shows after the last sequence has ended, and the sandbox hours."""
    s, r = context.scenario, context.scenario.reward
    waves = math.ceil(s.algorithm.sequences / r.concurrency)
    factor = sandbox_speed(context)
    shown = (r.seconds if r.overlapped else waves * r.seconds) / factor
    busy = s.algorithm.sequences * (r.seconds + s.rollout.turns * s.rollout.tool_seconds) / 3600.0
    hours = busy / float(factor.reshape(-1)[0])
    formula = "seconds of the last sequence" if r.overlapped else "ceil(sequences / concurrency) x seconds"
    phase = Phase("reward", [Term("verification", shown, "scenario", "sandbox", formula, ("the scenario",))])
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
    """Return the move of new weights from the trainer to generation: fixed time, and bytes over the narrower side.

    ``colocated``: every GPU gathers whole tensors from the GPUs that hold parts of one copy of the model, over the
    network if they are more than the scale-up domain joins. ``broadcast`` and ``object_store``: one copy leaves by one
    GPU's network link, further replicas receive it in a pipeline. ``peer_to_peer``: each GPU sends its own parts to
    all replicas. ``delta``: a broadcast of the changed share.
    """
    s, inputs, t = context.scenario, context.inputs, context.scenario.train
    copy = sync_bytes(context)
    link, links, sent = "nic", 1.0, copy
    if s.weight_sync == "colocated":
        parts = t.pipeline * max(t.tensor, t.expert)
        link = "scaleup" if parts <= context.system.domain else "nic"
        formula = f"every GPU gathers whole tensors from {parts} GPUs"
    elif s.weight_sync == "peer_to_peer":
        sent = copy * s.cluster.generating / s.rollout.replica
        links = float(min(s.cluster.training, s.cluster.generating))
        formula = "all replicas' bytes over the narrower side's links"
    elif s.weight_sync == "delta":
        sent, formula = copy * s.delta_share, "the changed share leaves by one link"
    elif s.weight_sync == "object_store":
        sent, formula = 2.0 * copy, "one copy to the store and one from it"
    else:
        formula = "one copy leaves by one link"
    kind = s.weight_sync if s.weight_sync in ("colocated", "peer_to_peer") else "broadcast"
    parameter = f"sync.{kind}_efficiency"
    seconds = sent / (context.times.link_rate(link, inputs) * inputs(parameter) * links)
    fixed = inputs("sync.fixed_s")
    phase = Phase("weight_sync", [parameter_term(context, "sync overhead", "sync.fixed_s", fixed, "per sync")])
    item = inputs.by_name[parameter]
    amount = f"{sent / 1e9:.4g} GB / ({links:g} x rate of link.{link} x efficiency): {formula}"
    source = (f"{item.origin}: {item.source}",)
    phase.add(
        Term("bytes", seconds, "specification_only", f"link.{link}", amount, source, f"parameters.yaml {parameter}")
    )
    phase.facts = {"bytes": sent, "links": links, "link": link, "method": s.weight_sync}
    return phase
