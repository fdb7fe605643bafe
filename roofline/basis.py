"""Which basis a projection stands on, from what is known of the two devices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from .ceilings import Ceilings
from .tables import generation
from .targets import Target

BasisName = Literal[
    "same_architecture", "next_generation", "two_generations", "cpu_to_gpu", "specification_only", "downward"
]
# A device of the same generation with less than this share of a binding ceiling is a smaller one, not a like one.
_SMALLER = 0.67


def basis_of(source: Ceilings, target: Target, binding: Iterable[str] = ()) -> BasisName:
    """Return the basis on which a measurement on ``source`` is projected onto ``target``.

    Parameters
    ----------
    binding
        Names of the ceilings that bound the workload, for telling a smaller device of the same generation.
    """
    if source.kind == "cpu" and target.kind == "cpu":
        return "same_architecture" if source.architecture == target.architecture else "next_generation"
    if "tpu" in (source.kind, target.kind):
        return "specification_only"
    if source.kind == "cpu":
        return "cpu_to_gpu"
    if target.kind == "cpu":
        return "downward"
    if source.vendor and target.vendor and source.vendor.lower() != target.vendor.lower():
        return "specification_only"
    here, there = generation(source.architecture), generation(target.architecture)
    if here is None or there is None:
        return "same_architecture" if source.architecture == target.architecture else "specification_only"
    steps = there - here
    if steps < 0 or steps % 1:
        return "downward"
    if steps == 0:
        return "downward" if _smaller(source, target, binding) else "same_architecture"
    return "next_generation" if steps == 1 else "two_generations"


def _smaller(source: Ceilings, target: Target, binding: Iterable[str]) -> bool:
    pairs = [(source.get(name), target.attained["mid"].get(name)) for name in binding]
    return any(a is not None and b is not None and b.value < _SMALLER * a.value for a, b in pairs)
