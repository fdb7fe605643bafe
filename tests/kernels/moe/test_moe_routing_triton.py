"""moe.routing in Triton: interpreter on awkward shapes, and ahead-of-time compilation."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from roofcast.kernels.moe.routing.operator import GATES, Routing

pytest.importorskip("triton")
sys.path.insert(0, str(Path(__file__).parent))
from routing_cases import OPERATOR, assert_exact, edge_rows, given

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered", "ignore:overflow encountered")


@pytest.mark.parametrize(
    "fields",
    [
        {"tokens": 3, "experts": 1, "top_k": 1},
        {"tokens": 9, "experts": 13, "top_k": 5, "gate": "softmax_after_topk"},
        {"tokens": 21, "experts": 24, "top_k": 3, "skew": "zipf", "block": 16, "scale": 0.5},
        {"tokens": 5, "experts": 20, "top_k": 2, "renormalize": False, "precision": "bf16"},
        {"tokens": 5, "experts": 36, "top_k": 4, "gate": "sigmoid", "groups": 12, "groups_kept": 3, "block": 3},
        {"tokens": 2, "experts": 6, "top_k": 2, "gate": "sigmoid", "groups": 6, "groups_kept": 5},
    ],
)
def test_interpreter(fields: dict[str, Any]) -> None:
    assert_exact("triton", OPERATOR.make_inputs(Routing(**fields), 7))


@pytest.mark.parametrize("gate", GATES)
def test_infinities_nan_zeros_and_ties(gate: str) -> None:
    assert_exact("triton", given(edge_rows(11), top_k=4, gate=gate))


COMPILE = """
import sys
from roofcast.kernels.moe.routing.triton_kernel import compile_specs
from roofcast.kernels.triton_support import compile_ahead
for name, target in (("choose_deepseek_v3", "sm_90"), ("choose_qwen3", "sm_107"), ("place_qwen3", "gfx950"),
                     ("scan", "sm_80"), ("pad", "sm_120")):
    spec, = (s for s in compile_specs(target) if s.name == name)
    compiled = compile_ahead(spec, target)
    assert compiled.asm["ptx" if target.startswith("sm") else "amdgcn"], name
"""


def test_kernels_compile_ahead_of_time() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
