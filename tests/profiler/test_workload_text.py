"""Workloads as written on a command line."""

import pytest
from roofcast.kernels import UnknownNameError, WorkloadError
from roofcast.profiler.workload_text import parse_workload


def test_fields_are_read_with_their_types() -> None:
    workload = parse_workload("sampling.logprob", "rows=3, vocab=151,precision=bf16,temperature=0.5,entropy=false")
    assert workload.as_dict() | {"top_n": 0} == workload.as_dict()
    assert (workload.as_dict()["rows"], workload.as_dict()["precision"], workload.as_dict()["entropy"]) == (
        3,
        "bf16",
        False,
    )


@pytest.mark.parametrize("text", ["rows", "rows=", "=3", "rows=3,,vocab=5"])
def test_what_is_not_a_workload_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(WorkloadError, match=r"rows|=3|vocab"):
        parse_workload("sampling.logprob", text)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(WorkloadError, match="tokens"):
        parse_workload("moe.routing", "experts=8,top_k=2")


def test_a_misspelt_field_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="vocab"):
        parse_workload("sampling.logprob", "rows=3,vocabulary=5")
