"""Measured beside specified, the flag where they disagree, and the sweep that a level was named by."""

from typing import Any

import pytest
from roofcast.hwprofiles.figure import Figure
from roofcast.profiler.ceilings import measure_ceilings
from roofcast.profiler.ceilings.setting import Setting
from roofcast.profiler.ceilings.specified import LEAST_SHARE, MOST_SHARE, Specification, beside_specified
from roofcast.profiler.ceilings.working_set import knee_text, levels, seen_levels, sweep_sizes
from roofcast.profiler.machine import inspect_machine
from roofcast.profiler.migrations import migrate
from roofcast.profiler.schema import RECORD, SCHEMA_VERSION, CeilingRow
from roofcast.profiler.store import Rows, Run, read_rows


def row(value: float | None, **changes: Any) -> CeilingRow:
    fields = {"key": "k", "name": "dram.read", "device": "cpu", "device_name": "", "unit": "bytes/s", "started_at": ""}
    return CeilingRow.model_validate(fields | {"status": "ok", "value": value} | changes)


SPECIFIED = Specification(
    {"dram.read": Figure(100e9, 90e9, 110e9, "bytes/s", "100 GB/s", ("sheet",), "2026", "high", "eight channels")},
    "profile some-cpu",
    "not in profile some-cpu",
)


@pytest.mark.parametrize(
    ("measured", "flag"),
    [
        (100e9, False),
        (90e9 * LEAST_SHARE * 1.001, False),
        (90e9 * LEAST_SHARE * 0.999, True),
        (110e9 * MOST_SHARE * 0.999, False),
        (110e9 * MOST_SHARE * 1.001, True),
    ],
)
def test_the_flag_is_raised_outside_the_documented_shares(measured: float, flag: bool) -> None:
    found = beside_specified(row(measured), SPECIFIED)
    assert found.disagrees is flag
    assert (found.specified, found.specified_low, found.specified_high) == (100e9, 90e9, 110e9)
    assert "some-cpu" in found.specified_source
    assert "eight channels" in found.specified_source
    shares = CeilingRow.model_fields["disagrees"].description or ""
    assert f"{LEAST_SHARE:.0%}".replace("%", " %") in shares
    assert f"{MOST_SHARE:.0%}".replace("%", " %") in shares


def test_without_a_figure_or_a_value_there_is_no_flag() -> None:
    other = beside_specified(row(1e9, name="llc.read"), SPECIFIED)
    assert (other.specified, other.disagrees) == (None, None)
    assert other.specified_source == "none: not in profile some-cpu"
    failed = beside_specified(row(None, status="crashed"), SPECIFIED)
    assert (failed.specified, failed.disagrees) == (100e9, None)
    peak = beside_specified(row(1e9, name="vector.fp32", unit="FLOP/s"), Specification(), (2e9, "two pipes"))
    assert (peak.specified, peak.disagrees, peak.specified_source) == (2e9, True, "two pipes")


def test_a_run_says_what_is_specified_or_why_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofcast.profiler.ceilings.measure.specification_of", lambda device, machine: SPECIFIED)
    monkeypatch.setattr(
        "roofcast.profiler.ceilings.measure._measure_one", lambda name, setting, budget_s: row(20e9, name=name)
    )
    (found,) = measure_ceilings("cpu", names=["dram.read"])
    assert (found.specified, found.disagrees) == (100e9, True)


def test_the_sweep_is_stored_with_the_levels_it_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    points = [(size, 1e9) for size in sweep_sizes(inspect_machine(), 2)]

    def sweep(setting: Setting) -> list[tuple[int, float]]:
        setting._sweep = points
        return points

    monkeypatch.setattr(Setting, "sweep", sweep)
    (found,) = measure_ceilings("cpu", names=["llc.read"])
    assert found.status == "unsupported"  # No knee: the points show why.
    assert found.sweep == points
    (tmp_path / "measurements.jsonl").write_text(found.model_dump_json() + "\n")
    run = Run(tmp_path, None, Rows(read_rows(tmp_path).all))  # type: ignore[arg-type]
    assert list(run.sweeps["working_set_bytes"]) == [size for size, _ in points]
    assert set(run.sweeps["bytes_per_s"]) == {1e9}
    assert "sweep" not in run.ceilings.columns


def test_a_named_level_is_traced_to_its_knee() -> None:
    machine = inspect_machine()
    known = levels(machine, 1)
    sweep = [(size, 80e9 if size <= known[0].set_bytes * 2 else 20e9) for size in sweep_sizes(machine, 1)]
    seen = seen_levels(known, sweep)
    assert seen[-1].name == "dram"
    assert knee_text("dram", seen).startswith("outside every cache")
    if len(seen) > 1:
        assert "80 GB/s in" in knee_text(seen[-2].name, seen)
        assert "20 GB/s one level further out" in knee_text(seen[-2].name, seen)


def test_rows_of_the_first_schema_are_migrated() -> None:
    fields = set(CeilingRow.model_fields) - {"specified", "specified_low", "specified_high", "specified_source"}
    old = row(1e9).model_dump(mode="json", include=fields - {"disagrees", "sweep"}) | {"schema_version": 1}
    new = RECORD.validate_python(migrate(old))
    assert new.schema_version == SCHEMA_VERSION
    assert isinstance(new, CeilingRow)
    assert (new.value, new.specified, new.sweep) == (1e9, None, [])
