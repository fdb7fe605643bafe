"""The toy operator of the measuring engine's tests."""

from pathlib import Path

import pytest
from roofcast.kernels import load_plugin, operator_names
from roofcast.profiler.cases import Case
from roofcast.profiler.settings import Settings

TOY_FILE = Path(__file__).parent / "toy_operator.py"


@pytest.fixture(scope="session")
def toy():
    """Return a maker of toy cases, and register the toy operator."""
    from roofcast.kernels import make_workload

    if "toy.scale" not in operator_names():
        load_plugin(TOY_FILE)

    def make(*implementations, cache_state="warm", **fields):
        workload = make_workload("toy.scale", fields)
        return [Case("toy.scale", workload, name, "cpu", cache_state) for name in implementations]

    return make


@pytest.fixture
def fast():
    """Return settings that measure a toy case in a tenth of a second."""
    return Settings(budget_s=0.1, warm_up_s=0.02, energy_s=0.0, plugins=(str(TOY_FILE),), timeout_s=20, threads=1)
