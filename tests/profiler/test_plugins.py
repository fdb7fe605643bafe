"""Users' files: the examples are measured, broken ones are named."""

from pathlib import Path

import pytest
from roofcast.kernels import implementation_names, load_plugin, make_workload, operator_names
from roofcast.kernels.registry import PluginError
from roofcast.profiler import Settings, make_cases, measure
from roofcast.profiler.isolation import sessions_in_workers

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def _measure(plugin, operator, **fields):
    path = EXAMPLES / plugin
    load_plugin(path)
    cases = make_cases([(operator, make_workload(operator, fields))], implementations=["numpy"])
    settings = Settings(budget_s=0.1, warm_up_s=0.02, energy_s=0.0, plugins=(str(path),))
    (here,) = measure(cases, settings)
    (apart,) = measure(cases, settings, open_sessions=sessions_in_workers)
    return here, apart


@pytest.mark.usefixtures("own_registry")
def test_example_of_an_implementation():
    rows = _measure("plugin_implementation.py", "sampling.logprob", rows=3, vocab=1000, temperature=0.7)
    assert [(row.status, row.message, row.backend) for row in rows] == [("ok", "", "user")] * 2
    assert "numpy" in implementation_names("sampling.logprob")


@pytest.mark.usefixtures("own_registry")
def test_example_of_an_operator():
    rows = _measure("plugin_operator.py", "norm.rms_example", rows=13, hidden=200)
    assert [(row.status, row.message, row.baseline) for row in rows] == [("ok", "", True)] * 2
    assert rows[0].cost["flops"] == {"vector.fp32": 3.0 * 13 * 200}
    assert "norm.rms_example" in operator_names()


@pytest.mark.parametrize(
    ("text", "says"),
    [("x = (", r"broken.py:1: SyntaxError"), ("import os\nx = 1 / 0\n", r"broken.py:2: ZeroDivisionError: division")],
)
def test_a_broken_plugin_is_named(tmp_path, text, says):
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(PluginError, match=says):
        load_plugin(path)


def test_a_missing_plugin_is_named(tmp_path):
    with pytest.raises(PluginError, match=r"nosuch.py: not a Python file"):
        load_plugin(tmp_path / "nosuch.py")
    with pytest.raises(PluginError, match="not a Python file"):
        load_plugin(tmp_path / "notes.txt")


def test_dataclasses_with_deferred_annotations_load(tmp_path):
    path = tmp_path / "deferred.py"
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom typing import ClassVar\n"
        "@dataclass\nclass D:\n    a: int = 1\n    c: ClassVar[str] = 'x'\n"
    )
    load_plugin(path)
