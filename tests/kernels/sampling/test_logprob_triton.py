"""sampling.logprob in Triton: results in the interpreter, and ahead-of-time compilation in another process."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from roofcast.kernels import get_implementation, get_operator, precision
from roofcast.kernels.contract import Inputs
from roofcast.kernels.sampling.logprob.operator import Logprob

# Numpy, under the interpreter, reports the NaN and infinities that the edge cases are about.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")

OPERATOR = get_operator("sampling.logprob")


def _run_triton(inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("sampling.logprob", "triton").prepare(inputs, "cpu")
    prepared.run()
    return prepared.output()


@pytest.mark.parametrize(
    "workload",
    [
        Logprob(1, 1),
        Logprob(3, 17, "bf16", entropy=False),
        Logprob(2, 151, logits="peaked", top_n=3, temperature=0.7),
        Logprob(1, 20_011, top_n=5),
        Logprob(2, 17_000, "bf16", logits="flat", rows_per_sequence=2, temperature=2.0),
        Logprob(5, 4099, top_n=1),
    ],
    ids=Logprob.label,
)
def test_against_the_reference(workload: Logprob) -> None:
    inputs = OPERATOR.make_inputs(workload, 7)
    output = _run_triton(inputs)
    assert set(output) == set(OPERATOR.reference(inputs))
    result = OPERATOR.check(output, inputs)
    assert result.ok, result.message


@pytest.mark.parametrize("rows_at_once", [1, 7])
def test_edge_rows(rows_at_once: int) -> None:
    vocab = 9001
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 2, (7, vocab)).astype(np.float32)
    rows[0, rng.random(vocab) < 0.9] = -np.inf
    rows[1], rows[1, 8999] = -np.inf, 3.0
    rows[2, :8500] = -np.inf
    rows[3] = -np.inf
    rows[4, 17] = np.nan
    rows[5, 8800] = np.inf
    rows[6] = np.linspace(-500, 1e4, vocab)
    tokens = np.array([5, 8999, 8600, 0, 3, 8800, vocab - 2])
    for at in range(0, 7, rows_at_once):
        some = slice(at, at + rows_at_once)
        arrays = {"logits": precision.store(rows[some], "fp32"), "token": tokens[some]}
        inputs = Inputs(Logprob(rows_at_once, vocab, top_n=4), 0, arrays)
        result = OPERATOR.check(_run_triton(inputs), inputs)
        assert result.ok, result.message


COMPILE = """
from roofcast.kernels.sampling.logprob.triton_kernel import compile_specs
from roofcast.kernels.triton_support import compile_ahead
for target in ("sm_80", "sm_100", "gfx942"):
    for spec in compile_specs(target):
        if spec.name.endswith("top20") and target == "sm_80":
            continue
        text = compile_ahead(spec, target).asm["ptx" if target.startswith("sm") else "amdgcn"]
        print(spec.name, any(load in text for load in (".v4.b32", "load_dwordx4")))
"""


def test_compiles_ahead_of_time_with_wide_loads() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 20
    assert all(wide == "True" for name, wide in lines if name.startswith("chunk"))
