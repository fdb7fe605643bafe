"""Suites name operators and workloads that exist; cases have one key each."""

import subprocess
import sys

import pytest
from roofcast.kernels import UnknownNameError, get_operator, operator_names
from roofcast.profiler import Case, UnknownSuiteError, group_cases, make_cases, suite, suite_names
from roofcast.profiler.suites import WORKLOADS, operator_workloads


@pytest.mark.parametrize("name", suite_names())
def test_suite_is_made_of_workloads_that_exist(name):
    items = suite(name)
    assert items
    for operator, workload in items:
        assert isinstance(workload, get_operator(operator).workload_type)
    assert len({(op, w.label()) for op, w in items}) == len(items)


def test_every_operator_has_workloads():
    assert set(operator_names()) <= set(WORKLOADS)


def test_quick_has_one_workload_per_family():
    assert [op for op, _ in suite("quick")] == ["moe.routing", "attention.decode", "sampling.logprob"]


def test_unknown_names_are_refused_with_near_ones(toy):
    with pytest.raises(UnknownSuiteError, match="did you mean quick"):
        suite("quik")
    toy("double")
    with pytest.raises(UnknownSuiteError, match="--workload"):
        operator_workloads("toy.scale")
    with pytest.raises(UnknownNameError, match="numba"):
        make_cases(suite("quick"), implementations=["numbas"])


def test_cases_come_back_from_plain_values():
    cases = make_cases(suite("quick"))
    assert {c.implementation for c in cases} >= {"numba", "torch"}
    assert "triton" not in {c.implementation for c in cases}
    assert len({c.key for c in cases}) == len(cases)
    for case in cases:
        assert Case.from_dict(case.as_dict()) == case
    assert all(len({c.group for c in group}) == 1 for group in group_cases(cases))
    assert "triton" in {c.implementation for c in make_cases(suite("quick"), device="cuda:0")}


def test_names_do_not_depend_on_what_was_imported():
    script = (
        "from roofcast.kernels import get_implementation, implementation_names\n"
        "import sys\n"
        "assert implementation_names('sampling.logprob') == ['numba', 'triton', 'torch', 'torch_logsumexp']\n"
        "assert 'torch' not in sys.modules\n"
        "assert get_implementation('sampling.logprob', 'torch_logsumexp').backend == 'torch'\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
