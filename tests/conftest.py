"""The environment of every test, and rows, ceilings and run folders with round numbers.

The environment is set before anything imports triton or matplotlib.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"
os.environ["MPLBACKEND"] = "Agg"

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from roofcast.kernels.contract import Cost
from roofcast.profiler.schema import CeilingRow, MachineState, Manifest, Measurement
from roofcast.profiler.store import Run, load_run

STARTED = "2026-12-01T09:00:00.000+00:00"
CEILINGS = {
    "dram.read": (50e9, "bytes/s"),
    "dram.copy": (44e9, "bytes/s"),
    "dram.triad": (46e9, "bytes/s"),
    "llc.read": (220e9, "bytes/s"),
    "vector.fp32": (540e9, "FLOP/s"),
    "matrix.fp32": (220e9, "FLOP/s"),
    "matrix.bf16": (930e9, "FLOP/s"),
    "exp.fp32": (9e9, "op/s"),
    "compare.fp32": (60e9, "op/s"),
}
MACHINE: dict[str, Any] = {
    "host": "bench",
    "cpu_model": "A CPU of 2 cores",
    "cpu_vendor": "AMD",
    "microarchitecture": "Zen 5",
    "architecture": "x86_64",
    "logical_cores": 2,
    "allowed_cores": 2,
    "memory_bytes": 16 * 2**30,
    "caches": [
        {"level": 1, "kind": "Data", "size_bytes": 48 * 2**10, "shared_by": 1, "line_bytes": 64},
        {"level": 2, "kind": "Unified", "size_bytes": 2**20, "shared_by": 1, "line_bytes": 64},
        {"level": 3, "kind": "Unified", "size_bytes": 32 * 2**20, "shared_by": 2, "line_bytes": 64},
    ],
    "gpus": [],
}
DECODE_COST = Cost(
    flops={"matrix.fp32": 0.54e9},
    read_bytes={"dram": 268e6},
    write_bytes={"dram": 0.1e6},
    exponentials=1.05e6,
)


def make_ceiling(name: str, value: float, unit: Any, device: str = "cpu", **more: Any) -> CeilingRow:
    fields: dict[str, Any] = {
        "key": f"{name}|{device}",
        "name": name,
        "device": device,
        "device_name": "A CPU of 2 cores",
        "status": "ok",
        "value": value,
        "unit": unit,
        "low": value * 0.99,
        "high": value * 1.01,
        "samples": [value * 0.99, value, value * 1.01],
        "threads": 2,
        "method": "a loop",
        "started_at": STARTED,
    }
    return CeilingRow(**(fields | more))


def make_measurement(
    operator: str = "attention.decode",
    implementation: str = "numba",
    time_s: float = 6e-3,
    cost: Cost = DECODE_COST,
    **more: Any,
) -> Measurement:
    fields: dict[str, Any] = {
        "key": f"{operator}|W()|{implementation}|cpu|cold",
        "operator": operator,
        "workload": {"batch": 8, "context": 4096},
        "implementation": implementation,
        "backend": implementation,
        "baseline": implementation == "torch",
        "device": "cpu",
        "device_name": "A CPU of 2 cores",
        "cache_state": "cold",
        "status": "ok",
        "samples_s": [time_s] * 5,
        "median_s": time_s,
        "ci95_low_s": time_s * 0.98,
        "ci95_high_s": time_s * 1.02,
        "cost": cost.as_dict(),
        "max_error": 0.1,
        "seed": 0,
        "state": MachineState(),
        "host": "bench",
        "software": {"python": "3.11.2", "numba": "0.68"},
        "commit": "abc1234",
        "started_at": STARTED,
    }
    return Measurement(**(fields | more))


ROUTING_COST = Cost(
    flops={"vector.fp32": 5e6}, read_bytes={"dram": 4.2e6}, write_bytes={"dram": 0.8e6}, exponentials=1.05e6,
    compares=8.4e6,
)  # fmt: skip
LOGPROB_COST = Cost(
    flops={"vector.fp32": 39e6}, read_bytes={"dram": 38.9e6}, write_bytes={"dram": 512.0}, exponentials=9.7e6
)


def write_run(path: Path, rows: list[Measurement | CeilingRow], machine: dict[str, Any] | None = None) -> Run:
    path.mkdir(parents=True, exist_ok=True)
    manifest = Manifest(
        run_id=path.name,
        created_at=STARTED,
        host="bench",
        machine=machine or MACHINE,
        software={"python": "3.11.2"},
        commit="abc1234",
        command=["roofcast", "run"],
        complete=True,
    )
    (path / "run.json").write_text(manifest.model_dump_json())
    lines = [json.dumps(row.model_dump(mode="json")) for row in rows]
    (path / "measurements.jsonl").write_text("\n".join(lines) + "\n")
    return load_run(path)


def example_rows() -> list[Measurement | CeilingRow]:
    """Three operators in two implementations, one row that failed and one too fast to be true."""
    return [
        *(make_ceiling(name, value, unit) for name, (value, unit) in CEILINGS.items()),
        make_measurement(time_s=6e-3),
        make_measurement(implementation="torch", time_s=12.4e-3),
        make_measurement("moe.routing", time_s=1.1e-3, cost=ROUTING_COST, workload={"tokens": 8192}),
        make_measurement("moe.routing", "torch", 5.1e-3, ROUTING_COST, workload={"tokens": 8192}),
        make_measurement("sampling.logprob", time_s=1.2e-3, cost=LOGPROB_COST, workload={"rows": 64}),
        make_measurement("sampling.logprob", "torch", 11.2e-3, LOGPROB_COST, workload={"rows": 64}),
        make_measurement("sampling.logprob", "user", 0.1e-3, LOGPROB_COST, workload={"rows": 64}),
        make_measurement(
            "attention.decode", "triton", status="unsupported", message="needs a GPU", median_s=None,
            ci95_low_s=None, ci95_high_s=None, samples_s=[],
        ),
    ]  # fmt: skip


@pytest.fixture
def measurement() -> Callable[..., Measurement]:
    return make_measurement


@pytest.fixture
def ceiling() -> Callable[..., CeilingRow]:
    return make_ceiling


@pytest.fixture
def save_run(tmp_path: Path) -> Callable[..., Run]:
    def save(rows: list[Measurement | CeilingRow], **more: Any) -> Run:
        return write_run(tmp_path / "run", rows, **more)

    return save


@pytest.fixture
def judged_rows() -> list[Measurement | CeilingRow]:
    return judged(example_rows())


def judged(rows: list[Measurement | CeilingRow]) -> list[Measurement | CeilingRow]:
    from roofcast.roofline.ceilings import from_rows, machine_capacities
    from roofcast.roofline.judge import judge

    limits = from_rows([r for r in rows if isinstance(r, CeilingRow)], capacities=machine_capacities(MACHINE))
    judge_row = judge(limits)
    return [judge_row(r) if isinstance(r, Measurement) else r for r in rows]
