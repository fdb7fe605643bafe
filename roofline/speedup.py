"""Speed-ups over the baseline, quoted only where both sides passed their check."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..profiler.schema import Measurement


def speedups(rows: Sequence[Measurement]) -> dict[str, float]:
    """Return ``baseline time / time`` by case key, for correct rows whose baseline is correct too.

    A row's baseline has the same operator, workload, device and cache state; the baseline itself is 1.0.
    """
    baseline = {_case(row): row.median_s for row in rows if row.baseline and row.status == "ok" and row.median_s}
    return {
        row.key: baseline[_case(row)] / row.median_s
        for row in rows
        if row.status == "ok" and row.median_s and _case(row) in baseline
    }


def _case(row: Measurement) -> tuple[str, str, str, str]:
    return row.operator, json.dumps(row.workload, sort_keys=True), row.device, row.cache_state
