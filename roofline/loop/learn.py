"""The phases that run whole sequences: log-probabilities and training."""

from __future__ import annotations

import numpy as np

from .load import Load
from .phase import Context, DoesNotFitError, Phase, Term, operator_term
from .work import Array, Operation, Value, Work
from .workloads import PRECISION_BYTES, Pass, Shards, operations

# Passes of each operator per training microbatch: forward and backward. Two products per weight run backward;
# attention recomputes its scores, five products for two. Recomputation adds one forward pass.
_BACKWARD = {
    "attention.prefill": 3.5,
    "attention.mla_prefill": 3.5,
    "sampling.logprob": 2.0,
    "collective.all_reduce": 2.0,
    "collective.all_to_all": 2.0,
}
_BACKWARD_OTHERS = 3.0
_RECOMPUTED = {"none": 0.0, "selective": 0.0, "full": 1.0}
# bf16 weight, fp32 gradient; fp32 master weight and two fp32 moments.
_WEIGHT_AND_GRADIENT_BYTES = 6.0
_OPTIMIZER_BYTES = 12.0
_GRADIENT_BYTES = 4.0
_TRAIN_MEMORY = 0.92


def logprob_phase(context: Context, load: Load | None = None) -> Phase:
    """Return the forward passes of the policy and, if asked for, of the reference."""
    s = context.scenario
    phase = Phase("logprob")
    passes = (1 if s.algorithm.policy_logprob else 0) + (1 if s.algorithm.reference_model else 0)
    if passes:
        _passes(context, phase, dict.fromkeys(_all(), 1.0), float(passes), load or Load.of(s), updates=1)
    phase.facts = {"passes": passes}
    return phase.scaled(_factor(context))


def train_phase(context: Context, load: Load | None = None) -> Phase:
    """Return forward, backward, recomputation, gradient exchange and optimizer.

    Parameters
    ----------
    load
        Replaces the scenario's own; what does not fit is then for the caller to find (`training_memory`).

    Raises
    ------
    DoesNotFitError
        If weights, gradients and optimizer state do not fit.
    """
    s = context.scenario
    if load is None:
        check_training_memory(context)
        load = Load.of(s)
    phase = Phase("train")
    again = _RECOMPUTED[s.train.recompute]
    multiples = {name: _BACKWARD.get(name, _BACKWARD_OTHERS) + again for name in _all()}
    _passes(context, phase, multiples, float(s.algorithm.epochs), load, updates=load.updates)
    phase.scaled(_factor(context))
    _exchange(context, phase, load)
    _optimizer(context, phase, load)
    flops = 6.0 * (s.model.active_parameters - s.model.vocab * s.model.hidden) * s.tokens * s.algorithm.epochs
    peak = context.times.peak(s.precision.train)
    seconds = float(phase.seconds.reshape(-1)[0])
    phase.facts = {"mfu": flops / (seconds * s.cluster.training * peak), "updates": s.algorithm.updates}
    return phase


def _all() -> tuple[str, ...]:
    from .workloads import OPERATORS

    return tuple(OPERATORS)


def _factor(context: Context) -> Array:
    return context.inputs("train.moe_factor" if context.scenario.model.moe else "train.dense_factor")


def train_shards(context: Context) -> Shards:
    """Return how the trainer is spread."""
    t = context.scenario.train
    return Shards(t.tensor, t.expert, context.system.domain)


def _passes(
    context: Context, phase: Phase, multiples: dict[str, float], repeats: float, load: Load, *, updates: Value
) -> None:
    s, t = context.scenario, context.scenario.train
    ranks = load.training / (t.tensor * t.pipeline * t.context)
    per_rank = s.mean_length * load.sequences / ranks
    each_update = np.maximum(1, updates)
    micro = np.reshape(np.minimum(float(t.microbatch_tokens), per_rank * s.algorithm.epochs / each_update), (-1, 1))
    batches = per_rank / micro
    per_update = batches * repeats / each_update
    bubble = 1.0 + (t.pipeline - 1) / (t.interleave * per_update)
    mean_context = s.pairs / s.mean_length
    work = Pass(
        tokens=micro / t.context,
        context=mean_context,
        sequences=micro / s.mean_length,
        mode="prefill",
        precision=s.precision.train,
        logits=micro / t.context,
    )
    for operation in operations(s.model, work, train_shards(context)):
        each = context.times.time(operation, s.precision.train, context.inputs) / t.pipeline
        seconds = each * batches * repeats * bubble * multiples[operation.operator]
        phase.add(operator_term(context, operation, seconds, s.precision.train))
    if t.shard == "full":
        _gather_weights(context, phase, batches * repeats * (2.0 if repeats else 1.0), load)


def _held(context: Context) -> float:
    """Parameters that one GPU of the trainer works with, before data parallelism shards anything."""
    m, t = context.scenario.model, context.scenario.train
    common = m.mixer_parameters + m.dense_parameters + m.embedding_parameters
    return (common / t.tensor + m.expert_parameters / train_shards(context).expert_split) / t.pipeline


def _spread_links(context: Context, sent: float, load: Load) -> dict[str, Value]:
    """A ring over all data-parallel GPUs: inside the domain, and across it if it is larger."""
    inside = context.system.domain
    across = np.asarray(load.training) > inside
    return {"scaleup": sent, "nic": np.where(across, sent / inside, 0.0)} if np.any(across) else {"scaleup": sent}


def _gather_weights(context: Context, phase: Phase, times: Value, load: Load) -> None:
    sent = _held(context) * PRECISION_BYTES[context.scenario.precision.train]
    once = Operation("collective.all_gather", Work(link_bytes=_spread_links(context, sent, load), launches=0), 1)
    hidden = 1.0 - context.inputs("train.overlap")
    seconds = times * context.times.time(once, "bf16", context.inputs) * hidden
    gather = Operation(once.operator, once.work, float(np.reshape(times, -1)[0]))
    phase.add(operator_term(context, gather, seconds, "bf16"))


def _exchange(context: Context, phase: Phase, load: Load) -> None:
    s = context.scenario
    sent = _held(context) * (_GRADIENT_BYTES + PRECISION_BYTES[s.precision.train])
    once = Operation("collective.reduce_scatter", Work(link_bytes=_spread_links(context, sent, load), launches=0), 1)
    hidden = 1.0 - context.inputs("train.overlap")
    seconds = load.updates * context.times.time(once, "bf16", context.inputs) * hidden
    exchange = Operation(once.operator, once.work, float(np.reshape(load.updates, -1)[0]))
    phase.add(operator_term(context, exchange, seconds, "bf16"))


def _optimizer(context: Context, phase: Phase, load: Load) -> None:
    s, inputs = context.scenario, context.inputs
    moved = inputs("train.optimizer_bytes") * s.model.parameters / load.training
    seconds = load.updates * moved / inputs("ceiling.dram.read")
    item = inputs.by_name["train.optimizer_bytes"]
    phase.add(
        Term(
            "optimizer",
            seconds,
            "specification_only",
            "dram.read",
            "updates x bytes per parameter x parameters / GPUs / bandwidth",
            (f"{item.origin}: {item.source}", inputs.by_name["ceiling.dram.read"].source),
            "parameters.yaml train.optimizer_bytes",
        )
    )


def training_bytes(context: Context, load: Load | None = None) -> Value:
    """Return bytes per GPU that the trainer holds: weights, gradients, optimizer state, activations."""
    s, t = context.scenario, context.scenario.train
    load = load or Load.of(s)
    held = _held(context)
    weights = held * _WEIGHT_AND_GRADIENT_BYTES
    if t.shard == "full":
        weights = s.model.parameters * _WEIGHT_AND_GRADIENT_BYTES / load.training
    optimizer = s.model.parameters * _OPTIMIZER_BYTES / load.training
    layers = s.model.attention.layers + (s.model.recurrent.layers if s.model.recurrent else 0)
    # Bytes per token and layer in units of the hidden width: the layer's input alone with full recomputation, else
    # the intermediate results that backward needs (Korthikanti et al., arXiv 2205.05198, table 2: 34 per value).
    kept = 2.0 if t.recompute == "full" else 34.0
    tokens = np.minimum(float(t.microbatch_tokens), s.mean_length * load.sequences) / t.context
    logits = tokens * s.model.vocab * 4.0 / t.tensor
    return weights + optimizer + tokens * s.model.hidden * layers * kept / t.tensor + logits


def training_memory(context: Context) -> tuple[float, float]:
    """Return bytes per GPU that the trainer needs, and usable ones."""
    return float(np.max(training_bytes(context))), trainer_memory(context)


def trainer_memory(context: Context) -> float:
    """Return bytes of one GPU that the trainer can use."""
    return _TRAIN_MEMORY * context.system.memory_bytes


def check_training_memory(context: Context) -> None:
    """Refuse a trainer that does not fit."""
    s = context.scenario
    needed, usable = training_memory(context)
    if needed > usable:
        raise DoesNotFitError(
            f"{s.name} on {context.system.name}: training needs {needed / 1e9:.0f} GB per GPU (weights, gradients, "
            f"optimizer, activations), and {usable / 1e9:.0f} GB are usable; raise train.expert, train.pipeline or "
            "train.tensor, add GPUs, use train.shard: full, or lower train.microbatch_tokens"
        )
