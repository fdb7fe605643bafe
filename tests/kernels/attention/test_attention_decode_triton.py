"""attention.decode in Triton: results in the interpreter, and ahead-of-time compilation in another process."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from roofcast.kernels.attention.decode.operator import AttentionDecode

sys.path.insert(0, str(Path(__file__).parent))
from decode_cases import AWKWARD, OPERATOR, poison_unused_slots, run_decode

# Padded rows, which are not written, have no largest score; numpy reports it under the interpreter.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")


@pytest.mark.parametrize("workload", AWKWARD, ids=AttentionDecode.label)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_against_the_reference(workload: AttentionDecode, precision: str) -> None:
    inputs = OPERATOR.make_inputs(dataclasses.replace(workload, precision=precision), 5)
    poison_unused_slots(inputs)
    output = run_decode(inputs, "triton")
    assert set(output) == {"out", "lse"}
    result = OPERATOR.check(output, inputs)
    assert result.ok, result.message


def test_very_large_scores() -> None:
    inputs = OPERATOR.make_inputs(AttentionDecode(2, 300, 4, 2, 64, lengths="uniform"), 1)
    inputs.arrays["q"] *= 3000.0
    result = OPERATOR.check(run_decode(inputs, "triton"), inputs)
    assert result.ok, result.message


COMPILE = """
from roofcast.profiler.compilation.evidence import compile_evidence
for found in compile_evidence(["attention.decode"], ["sm_100", "gfx942"]):
    row = found.as_row()
    assert not row["message"] or row["registers"], row
    print(row["kernel"], row["spills"], bool(row["matrix_instruction"]))
"""


def test_compiles_ahead_of_time_without_spills_on_matrix_units() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 12
    assert {spills for _, spills, _ in lines} == {"0"}
    assert all(matrix == "True" for name, _, matrix in lines if name.startswith("chunk"))
