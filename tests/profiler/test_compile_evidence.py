"""Every Triton kernel compiles ahead of time for every target, without spills, and says what it became."""

import json
import os
import subprocess
import sys

import pytest
from roofcast.kernels.triton_support import TARGETS
from roofcast.profiler.compilation.evidence import triton_operators

# In a process of its own, because the suite runs with Triton's interpreter on, in which nothing compiles.
_COMPILE = """
import json, sys
from roofcast.profiler.compilation.evidence import compile_evidence
print(json.dumps([e.as_row() for e in compile_evidence(sys.argv[1:2], sys.argv[2:])]))
"""


# The kernels of moe.layer are those of its parts.
@pytest.mark.parametrize("operator", [name for name in triton_operators() if name != "moe.layer"])
def test_every_kernel_compiles_for_every_target(operator: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE, operator, *TARGETS],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads(done.stdout)
    assert {row["target"] for row in rows} == set(TARGETS)
    for row in rows:
        assert row["registers"] > 0, row
        assert row["spills"] == 0, row
        if row["target"].startswith("sm_"):
            assert row["occupancy"] > 0, row
