"""Every Triton kernel on a real GPU against the float64 reference; skipped where there is none (``make gpu-check``)."""

import os
import subprocess
import sys

import pytest
from roofcast.profiler.compilation.evidence import triton_operators

pytestmark = pytest.mark.gpu

# The suite runs with Triton's interpreter on, which a process cannot leave again: kernels for a GPU need their own.
_CHECK = """
import sys
import torch
from roofcast.kernels import get_implementation, get_operator
from roofcast.profiler.suites import operator_workloads

name = sys.argv[1]
operator, implementation = get_operator(name), get_implementation(name, "triton")
for workload in operator_workloads(name):
    inputs = operator.make_inputs(workload, 1)
    prepared = implementation.prepare(inputs, "cuda:0")
    prepared.run()
    torch.cuda.synchronize()
    found = operator.check(prepared.output(), inputs)
    if not found.ok:
        sys.exit(f"{workload.label()}: {found.message}")
"""


def _has_gpu() -> bool:
    torch = pytest.importorskip("torch")
    return bool(torch.cuda.is_available())


@pytest.mark.parametrize("operator", triton_operators())
def test_triton_matches_the_reference(operator: str) -> None:
    if not _has_gpu():
        pytest.skip("no GPU on this machine")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", _CHECK, operator], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
