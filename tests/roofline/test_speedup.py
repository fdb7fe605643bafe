"""Speed-ups stand only where both sides are correct."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from roofcast.profiler.schema import Measurement
from roofcast.roofline.speedup import speedups


def test_ratio_to_the_baseline(measurement: Callable[..., Measurement]) -> None:
    ours, peer = measurement(time_s=2e-3), measurement(implementation="torch", time_s=6e-3)
    assert speedups([ours, peer]) == {ours.key: pytest.approx(3.0), peer.key: 1.0}


@pytest.mark.parametrize("status", ["incorrect", "above_roof", "crashed"])
def test_nothing_is_quoted_against_a_wrong_baseline(measurement: Callable[..., Measurement], status: str) -> None:
    assert speedups([measurement(), measurement(implementation="torch", status=status)]) == {}


def test_nothing_is_quoted_for_a_wrong_row(measurement: Callable[..., Measurement]) -> None:
    peer = measurement(implementation="torch")
    assert speedups([measurement(status="incorrect"), peer]) == {peer.key: 1.0}


def test_other_workloads_are_no_baseline(measurement: Callable[..., Measurement]) -> None:
    other = measurement(implementation="torch", workload={"batch": 1})
    assert measurement().key not in speedups([measurement(), other])
