"""Check outputs before they are timed and after, and catch implementations that cheat without meaning to."""

from __future__ import annotations

import numpy as np

from ..kernels import Arrays, Implementation, Inputs, Operator, Prepared
from .devices import Device
from .failures import CaseFailureError
from .inputs_shelf import changed_arrays


def run_once(prepared: Prepared, device: Device) -> Arrays:
    """Run once and return the output."""
    prepared.run()
    device.synchronise()
    return prepared.output()


def check_output(operator: Operator, output: Arrays, inputs: Inputs, when: str) -> float:
    """Return the largest error in units of its tolerance.

    Raises
    ------
    CaseFailureError
        With status ``incorrect`` if the output differs from the float64 reference.
    """
    check = operator.check(output, inputs)
    if not check.ok:
        raise CaseFailureError("incorrect", f"wrong {when}: {check.message or 'the check failed'}")
    return check.max_error


def check_inputs_untouched(inputs: Inputs, before: dict[str, int]) -> None:
    """Refuse an implementation that changed its inputs.

    Raises
    ------
    CaseFailureError
        With status ``incorrect``; the message names the arrays.
    """
    changed = changed_arrays(inputs, before)
    if changed:
        raise CaseFailureError("incorrect", f"run() changed its inputs: {', '.join(changed)}")


def check_output_rewritten(operator: Operator, prepared: Prepared, device: Device, inputs: Inputs) -> None:
    """Spoil the output buffers and run again: an answer that was kept from the first run shows.

    Only output arrays that are views of the implementation's own buffers can be spoiled; copies are left to
    `check_follows_inputs` and to the roof, which a call that does no work exceeds.

    Raises
    ------
    CaseFailureError
        With status ``incorrect`` if the second run did not write the output again.
    """
    for array in prepared.output().values():
        shared = any(np.may_share_memory(array, other) for other in inputs.arrays.values())
        if array.flags.writeable and not shared:
            array.fill(np.nan if array.dtype.kind == "f" else -1 if array.dtype.kind == "i" else 1)
    check = operator.check(run_once(prepared, device), inputs)
    if not check.ok:
        raise CaseFailureError(
            "incorrect",
            f"a second run() does not give the answer again ({check.message}); it keeps its first answer, or "
            "depends on what its output buffers held before",
        )


def check_follows_inputs(
    operator: Operator, implementation: Implementation, device: Device, inputs: Inputs, others: Inputs
) -> None:
    """Run on inputs of another seed: an answer cached by shape shows as the answer to the first inputs.

    The reference of the other inputs is computed only if the output looks like the first answer.

    Raises
    ------
    CaseFailureError
        With status ``incorrect`` if the output does not follow the inputs.
    """
    output = run_once(implementation.prepare(others, device.name), device)
    try:
        looks_cached = operator.check(output, inputs).ok
    except Exception:
        return  # Another shape than the first answer's: it cannot be that answer.
    if looks_cached and not operator.check(output, others).ok:
        raise CaseFailureError("incorrect", "other inputs of the same shape give the first inputs' answer: cached")
