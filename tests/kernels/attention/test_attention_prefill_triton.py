"""attention.prefill in Triton: results in the interpreter."""

import dataclasses
import sys
from pathlib import Path

import pytest
from roofcast.kernels.attention.prefill.operator import AttentionPrefill

sys.path.insert(0, str(Path(__file__).parent))
from prefill_cases import AWKWARD, OPERATOR, run_prefill

# Padded rows, which are not written, have no largest score; numpy reports it under the interpreter.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")


@pytest.mark.parametrize("workload", AWKWARD, ids=AttentionPrefill.label)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_against_the_reference(workload: AttentionPrefill, precision: str) -> None:
    inputs = OPERATOR.make_inputs(dataclasses.replace(workload, precision=precision), 5)
    output = run_prefill(inputs, "triton")
    assert set(output) == {"out", "lse"}
    result = OPERATOR.check(output, inputs)
    assert result.ok, result.message
