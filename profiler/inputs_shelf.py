"""Keep the inputs of the cases at hand, and notice when an implementation changes them."""

from __future__ import annotations

import zlib

import numpy as np

from ..kernels import Inputs, Operator, Workload


def fingerprint(inputs: Inputs) -> dict[str, int]:
    """Return a checksum (CRC-32) of every input array."""
    return {name: zlib.crc32(np.ascontiguousarray(array).data) for name, array in inputs.arrays.items()}


def changed_arrays(inputs: Inputs, before: dict[str, int]) -> list[str]:
    """Return the names of the arrays whose checksum is no longer the one of ``before``."""
    now = fingerprint(inputs)
    return sorted(name for name in {*now, *before} if now.get(name) != before.get(name))


class InputsShelf:
    """Inputs of one operator and workload by seed, shared by the implementations that are measured interleaved.

    Making inputs and their float64 reference costs more than most measurements, so both are made once.
    """

    def __init__(self) -> None:
        self._owner: tuple[str, str] | None = None
        self._held: dict[int, tuple[Inputs, dict[str, int]]] = {}

    def get(self, operator: Operator, workload: Workload, seed: int) -> tuple[Inputs, dict[str, int]]:
        """Return inputs and their fingerprint, making them if they are not held."""
        owner = (operator.name, workload.label())
        if owner != self._owner:
            self.clear()
            self._owner = owner
        if seed not in self._held:
            inputs = operator.make_inputs(workload, seed)
            self._held[seed] = inputs, fingerprint(inputs)
        return self._held[seed]

    def drop(self, seed: int) -> None:
        """Forget the inputs of a seed, because an implementation has changed them."""
        self._held.pop(seed, None)

    def clear(self) -> None:
        """Forget everything."""
        self._owner = None
        self._held.clear()
