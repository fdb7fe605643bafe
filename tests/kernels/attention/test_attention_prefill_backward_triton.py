"""attention.prefill_backward in Triton's interpreter."""

import dataclasses

import pytest
from roofcast.kernels import get_implementation, get_operator
from roofcast.kernels.attention.prefill_backward.operator import AttentionPrefillBackward

OPERATOR = get_operator("attention.prefill_backward")
AWKWARD = [
    AttentionPrefillBackward(1, 1, 1, 1, 64),
    AttentionPrefillBackward(2, 13, 3, 1, 96, prefix=5),
    AttentionPrefillBackward(1, 127, 1, 1, 128, causal=False),
    AttentionPrefillBackward(3, 129, 2, 1, 64, lengths="uniform", window=33),
    # The first queries see nothing.
    AttentionPrefillBackward(2, 70, 2, 2, 64, prefix=-30),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")
@pytest.mark.parametrize("workload", AWKWARD, ids=AttentionPrefillBackward.label)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_against_the_reference(workload: AttentionPrefillBackward, precision: str) -> None:
    inputs = OPERATOR.make_inputs(dataclasses.replace(workload, precision=precision), 5)
    prepared = get_implementation("attention.prefill_backward", "triton").prepare(inputs, "cpu")
    prepared.run()
    result = OPERATOR.check(prepared.output(), inputs)
    assert result.ok, result.message
