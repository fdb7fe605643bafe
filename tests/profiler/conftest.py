"""The toy operator of the measuring engine's tests."""

from pathlib import Path

import pytest
from roofcast.kernels import load_plugin, make_workload, registry
from roofcast.profiler.cases import Case
from roofcast.profiler.settings import Settings

TOY_FILE = Path(__file__).parent / "toy_operator.py"


@pytest.fixture
def own_registry(monkeypatch):
    """Let a test register operators and implementations that other tests do not see."""
    monkeypatch.setattr(registry, "_user_operators", dict(registry._user_operators))
    monkeypatch.setattr(registry, "_implementations", dict(registry._implementations))


@pytest.fixture
def toy(own_registry):
    """Return a maker of toy cases, and register the toy operator."""
    load_plugin(TOY_FILE)

    def make(*implementations, cache_state="warm", **fields):
        workload = make_workload("toy.scale", fields)
        return [Case("toy.scale", workload, name, "cpu", cache_state) for name in implementations]

    return make


@pytest.fixture
def fast():
    """Return settings that measure a toy case in a tenth of a second."""
    return Settings(budget_s=0.1, warm_up_s=0.02, energy_s=0.0, plugins=(str(TOY_FILE),), timeout_s=20, threads=1)
