"""What a phase takes: its time over all variants and the terms that it is the sum of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .inputs import Inputs
from .scenario import Scenario
from .system import System
from .time_source import TimeSource
from .work import Array, Operation

# From the firmest ground to the weakest.
BASES = (
    "same_architecture",
    "next_generation",
    "two_generations",
    "downward",
    "cpu_to_gpu",
    "specification_only",
)
_COUNTS = 0.1


class DoesNotFitError(ValueError):
    """A scenario that a system cannot hold; the message says what is too large and what would make it fit."""


@dataclass(frozen=True)
class Context:
    """One scenario on one system, with its inputs.

    ``explained`` is False where only numbers are wanted: terms then carry no formula and no ceiling.
    """

    scenario: Scenario
    system: System
    times: TimeSource
    inputs: Inputs
    explained: bool = True


@dataclass
class Term:
    """A part of a phase: seconds over variants, what bounds it, and where it comes from."""

    name: str
    seconds: Array
    basis: str
    bound_by: str
    formula: str
    sources: tuple[str, ...] = ()
    reference: str = ""
    work: dict[str, Any] = field(default_factory=dict)


@dataclass
class Phase:
    """A phase of one step: terms in the order they were found, ``seconds`` their sum."""

    name: str
    terms: list[Term] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, term: Term) -> None:
        """Add a term, joining those of one name."""
        for known in self.terms:
            if known.name == term.name:
                known.seconds = known.seconds + term.seconds
                return
        self.terms.append(term)

    @property
    def seconds(self) -> Array:
        """Time of the phase: (variants, 1)."""
        return sum((term.seconds for term in self.terms), start=np.zeros((1, 1)))

    def scaled(self, factor: Array) -> Phase:
        """Return the phase with every term times a factor, but for what the scenario itself gives."""
        for term in self.terms:
            if term.basis != "scenario":
                term.seconds = term.seconds * factor
        return self

    @property
    def bound_by(self) -> str:
        """What bounds the largest term."""
        return max(self.terms, key=lambda t: float(t.seconds.reshape(-1)[0])).bound_by if self.terms else "nothing"

    @property
    def basis(self) -> str:
        """The weakest basis of any operator that takes a tenth of the phase or more."""
        total = float(self.seconds.reshape(-1)[0])
        counted = [
            t.basis for t in self.terms if t.basis in BASES and float(t.seconds.reshape(-1)[0]) >= _COUNTS * total
        ]
        return max(counted, key=BASES.index) if counted else (self.terms[0].basis if self.terms else "scenario")


def operator_term(context: Context, operation: Operation, seconds: Array, precision: str) -> Term:
    """Return the term of an operator whose calls take ``seconds``."""
    times, inputs = context.times, context.inputs
    if not context.explained:
        return Term(operation.operator, seconds, times.basis(operation.operator), "", "")
    own = times.factor(operation.operator)
    bound_by = times.bound_by(operation, inputs)
    ceiling = inputs.by_name.get(f"ceiling.{bound_by}")
    return Term(
        operation.operator,
        seconds,
        times.basis(operation.operator),
        bound_by,
        times.formula(operation, precision, inputs),
        (ceiling.source if ceiling else "", times.class_title(operation.operator)),
        own.reference if own else "",
        operation.work.as_dict(),
    )


def parameter_term(context: Context, name: str, parameter: str, seconds: Array, formula: str) -> Term:
    """Return a term that a calibrated parameter gives."""
    item = context.inputs.by_name[parameter]
    return Term(
        name, seconds, "calibrated", name, formula, (f"{item.origin}: {item.source}",), f"parameters.yaml {parameter}"
    )
