"""Triton's matrix products of many bf16 rows become the widest matrix instruction of each target, with no spills."""

import json
import os
import subprocess
import sys

import pytest

EXPECTED = {"sm_90": "wgmma", "sm_100": "tcgen05", "sm_103": "tcgen05", "sm_107": "tcgen05", "gfx950": "mfma"}
KERNELS = {
    "linear.gemm": ["many_bf16"],
    "moe.expert_gemm": ["in_train_bf16", "out_train_bf16"],
    "attention.prefill": ["dim128_bf16"],
    "attention.prefill_backward": ["queries_dim128_bf16", "keys_dim128_bf16"],
}

# In a process of its own, because the suite runs with Triton's interpreter on, in which nothing compiles.
_COMPILE = """
import importlib, json, sys
from roofcast.kernels.registry import backend_module
from roofcast.kernels.triton_support import compile_ahead
from roofcast.profiler.compilation.amd import read_amdgcn
from roofcast.profiler.compilation.nvidia import read_cubin
operator, kernels, targets = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
module, rows = importlib.import_module(backend_module(operator, "triton")), []
for target in targets:
    for spec in module.compile_specs(target):
        if spec.name in kernels:
            read = read_cubin if target.startswith("sm_") else read_amdgcn
            found = read(compile_ahead(spec, target))
            rows.append([target, spec.name, found.matrix_instruction, found.spills])
print(json.dumps(rows))
"""


@pytest.mark.parametrize("operator", KERNELS)
def test_matrix_instruction(operator: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE, operator, ",".join(KERNELS[operator]), *EXPECTED],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads(done.stdout)
    assert len(rows) == len(EXPECTED) * len(KERNELS[operator])
    for target, name, instruction, spills in rows:
        assert instruction == EXPECTED[target], (target, name)
        assert spills == 0, (target, name)
