"""The rollout phase: prefill, decode over the lengths, tools."""

from __future__ import annotations

import numpy as np

from .around import sandbox_speed
from .load import Load
from .phase import Context, DoesNotFitError, Phase, Term, operator_term, parameter_term
from .rollout import Curve, decode_curve
from .work import Array
from .workloads import Pass, Shards, cache_bytes_per_token, operations, weight_bytes

_PREFILL_CHUNK = 8192.0


def rollout_phase(context: Context, load: Load | None = None) -> Phase:
    """Return the rollout phase of a step; ``load`` replaces the scenario's own.

    Raises
    ------
    DoesNotFitError
        If a replica cannot hold the weights and one sequence.
    """
    s = context.scenario
    load = load or Load.of(s)
    shards = rollout_shards(context)
    replicas = load.generating / s.rollout.replica
    each = load.sequences / replicas
    cap = sequence_cap(context, shards)
    curve = decode_curve(
        s.lengths.response,
        s.lengths.prompt.mean + s.observations / 2.0,
        each,
        cap,
        step_sequences=load.sequences,
        tail=s.schedule != "async",
    )
    phase = Phase("rollout")
    _decode(context, phase, shards, curve)
    _prefill(context, phase, shards, load)
    if s.rollout.tool_seconds:
        # A sequence keeps its slot while its tools run; with more sequences than slots this repeats.
        rounds = np.maximum(each / cap, 1.0)
        wait = rounds * s.rollout.turns * s.rollout.tool_seconds / sandbox_speed(context)
        phase.add(Term("tools", wait, "scenario", "tools", "turns x tool_seconds x sequences / slots"))
    phase.facts = {
        "replicas": float(np.reshape(replicas, -1)[0]),
        "sequences_per_replica": float(np.reshape(each, -1)[0]),
        "cap_per_replica": float(np.reshape(cap, -1)[0]),
        "iterations": float(curve.iterations.reshape(-1)[0]),
        "mean_batch": float(curve.mean_batch.reshape(-1)[0]),
        "weight_bytes_per_gpu": weight_bytes(s.model, shards, s.precision.rollout),
    }
    return phase


def rollout_shards(context: Context) -> Shards:
    """Return how a replica is spread."""
    r = context.scenario.rollout
    return Shards(r.tensor, r.expert, context.system.domain)


def _memory(context: Context, shards: Shards) -> tuple[float, float, float]:
    """Bytes on one GPU: weights, cache per token, state per sequence."""
    s = context.scenario
    weights = weight_bytes(s.model, shards, s.precision.rollout)
    per_token = cache_bytes_per_token(s.model, shards, s.precision.cache)
    return weights, per_token, s.model.state_bytes_per_sequence() / s.rollout.tensor


def rollout_memory(context: Context) -> tuple[float, float]:
    """Return bytes per GPU that generation needs at least (weights and the longest sequence), and usable ones."""
    s = context.scenario
    weights, per_token, state = _memory(context, rollout_shards(context))
    longest = s.lengths.prompt.longest + s.observations + s.lengths.response.longest
    usable = context.system.memory_bytes * context.inputs.by_name["memory.utilization"].mid
    return weights + longest * per_token + state, float(usable)


def sequence_cap(context: Context, shards: Shards) -> Array:
    """Return how many sequences a replica can run at once, from memory and the scenario's limit."""
    s, r = context.scenario, context.scenario.rollout
    groups = r.replica / r.tensor
    weights, per_token, state = _memory(context, shards)
    needed, usable = rollout_memory(context)
    if usable < needed:
        raise DoesNotFitError(
            f"{s.name} on {context.system.name}: rollout needs {weights / 1e9:.1f} GB of weights and "
            f"{(needed - weights) / 1e9:.1f} GB for one sequence per GPU, and "
            f"{usable / 1e9:.1f} GB are usable; raise rollout.tensor or rollout.expert, "
            "or lower the precision"
        )
    available = context.system.memory_bytes * context.inputs("memory.utilization") - weights
    response = s.lengths.response
    resident = s.lengths.prompt.mean + s.observations / 2.0 + response.mean_square / (2.0 * response.mean)
    cap = np.maximum(available / (resident * per_token + state), 1.0) * groups
    return np.minimum(cap, r.max_sequences) if r.max_sequences else cap


def _decode(context: Context, phase: Phase, shards: Shards, curve: Curve) -> None:
    s, r, inputs = context.scenario, context.scenario.rollout, context.inputs
    groups = r.replica / r.tensor
    here = np.maximum(curve.batch / groups, 1.0)
    extra, drafting = (r.speculative.draft + 1.0, 1.0 + r.speculative.draft_cost) if r.speculative else (1.0, 1.0)
    iterations = curve.weight * inputs("rollout.imbalance") / (r.speculative.accepted if r.speculative else 1.0)
    work = Pass(
        tokens=here * extra,
        context=curve.context,
        sequences=here,
        mode="decode",
        precision=s.precision.rollout,
        cache=s.precision.cache,
        logits=here * extra,
    )
    for operation in operations(s.model, work, shards):
        each = context.times.time(operation, s.precision.rollout, inputs)
        seconds = np.sum(iterations * each * drafting, axis=-1, keepdims=True)
        phase.add(operator_term(context, operation, seconds, s.precision.rollout))
    total = np.sum(iterations, axis=-1, keepdims=True)
    fixed = inputs("rollout.iteration_overhead_s") * total
    phase.add(
        parameter_term(context, "iteration overhead", "rollout.iteration_overhead_s", fixed, "iterations x overhead")
    )
    scheduled = inputs("rollout.sequence_overhead_s") * np.sum(iterations * here, axis=-1, keepdims=True)
    phase.add(
        parameter_term(
            context, "sequence overhead", "rollout.sequence_overhead_s", scheduled, "iterations x batch x overhead"
        )
    )


def _prefill(context: Context, phase: Phase, shards: Shards, load: Load) -> None:
    s, r = context.scenario, context.scenario.rollout
    prompt = s.lengths.prompt
    replicas = load.generating / r.replica
    read = load.prompts if r.prefix_cache else load.sequences
    tokens = (read * prompt.mean + load.sequences * s.observations) / replicas
    groups = r.replica / r.tensor
    chunk = np.reshape(np.minimum(_PREFILL_CHUNK, tokens / groups), (-1, 1))
    passes = tokens / (groups * chunk)
    work = Pass(
        tokens=chunk,
        context=prompt.pairs / prompt.mean if not s.observations else s.mean_length / 2.0,
        sequences=chunk / prompt.mean,
        mode="prefill",
        precision=s.precision.rollout,
        cache=s.precision.cache,
    )
    for operation in operations(s.model, work, shards):
        seconds = passes * context.times.time(operation, s.precision.rollout, context.inputs)
        phase.add(operator_term(context, operation, seconds, s.precision.rollout))


def prefill_seconds(context: Context) -> Array:
    """Return the part of the rollout phase that reads prompts and observations: (variants, 1)."""
    phase = Phase("prefill")
    _prefill(context, phase, rollout_shards(context), Load.of(context.scenario))
    return phase.scaled(context.inputs("model.residual")).seconds
