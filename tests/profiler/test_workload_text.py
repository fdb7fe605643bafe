"""Workloads as written on a command line."""

from dataclasses import dataclass, replace

import pytest
from roofcast.kernels import UnknownNameError, Workload, WorkloadError, get_operator, registry
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


def test_a_missing_field_is_named(toy, monkeypatch) -> None:
    toy("double")

    @dataclass(frozen=True)
    class Sized(Workload):
        size: int
        power: int = 1

    operator = replace(get_operator("toy.scale"), workload_type=Sized)
    monkeypatch.setitem(registry._user_operators, "toy.scale", operator)
    with pytest.raises(WorkloadError, match="size"):
        parse_workload("toy.scale", "power=2")


def test_a_misspelt_field_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="vocab"):
        parse_workload("sampling.logprob", "rows=3,vocabulary=5")
