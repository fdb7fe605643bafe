"""Measured ceilings become a profile that loads and says the same."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofcast.hwprofiles import DeviceProfile, ProfileError, load_file
from roofcast.hwprofiles.identity import ObservedCpu, identify_cpu
from roofcast.hwprofiles.probe import profile_from_measurements, slug, write_profile


@dataclass
class Row:
    name: str
    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    status: str = "ok"
    method: str = "a kernel: with 'quotes', {braces} and # marks"


ROWS = [
    Row("dram.read", 21.5e9, "bytes/s", 21.0e9, 22.0e9),
    Row("dram.triad", 18.0e9, "bytes/s", 17.5e9, 18.5e9),
    Row("llc.read", 150e9, "bytes/s", 140e9, 155e9),
    Row("vector.fp32", 118e9, "FLOP/s", 60e9, 119e9),
    Row("vector.int8", 400e9, "op/s"),
    Row("matrix.bf16", 230e9, "FLOP/s", 229e9, 231e9),
    Row("exp.fp32", 3.1e9, "op/s", 3.0e9, 3.2e9),
    Row("compare.fp32", 12e9, "op/s"),
    Row("dram.latency", 1e-7, "s"),
    Row("matrix.fp16", None, "FLOP/s", status="unsupported"),
    Row("one_thread.dram.read", 99e9, "bytes/s"),
    Row("matrix.madeup", 1e9, "op/s"),
]


def _profile(folder: Path, rows: list[Row] = ROWS, **more: object) -> DeviceProfile:
    facts = {"title": "My: CPU #1", "kind": "cpu", "date": "2026-12-01", "cores": 2, "device_name": "My CPU (R) 3.0+"}
    text = profile_from_measurements(rows, name="mine", **facts, **more)  # type: ignore[arg-type]
    profile = load_file(write_profile(text, folder, "mine"))
    assert isinstance(profile, DeviceProfile)
    return profile


def test_round_trip(tmp_path: Path) -> None:
    profile = _profile(tmp_path / "new" / "folder", memory_bytes=16 << 30, llc_bytes=32 << 20)
    ceilings = profile.ceilings()
    read = ceilings["dram.read"]
    assert (read.value, read.low, read.high, read.confidence) == (21.5e9, 21.0e9, 22.0e9, "medium")
    assert ceilings["llc.read"].value == 150e9
    assert ceilings["vector.fp32"].confidence == "low", "a wide interval is not to be trusted"
    assert ceilings["vector.int8"].unit == "op/s"
    assert ceilings["exp.fp32"].value == 3.1e9
    assert ceilings["compare.fp32"].value == 12e9
    assert "matrix.fp16" not in ceilings
    assert profile.capacities()["dram"].value == 16 << 30
    assert profile.capacities()["llc"].value == 32 << 20
    assert profile.sources["measured"].date == "2026-12-01"
    assert "quotes" in read.note


def test_a_probed_device_is_recognised(tmp_path: Path) -> None:
    profile = _profile(tmp_path)
    observed = ObservedCpu("My CPU (R) 3.0+", cores=2, usable_cores=2)
    assert identify_cpu(observed, [profile]).profile is profile
    assert identify_cpu(ObservedCpu("My CPU R 3.00", cores=2, usable_cores=2), [profile]).profile is None


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    _profile(tmp_path)
    with pytest.raises(FileExistsError, match="--replace"):
        _profile(tmp_path)
    text = (tmp_path / "mine.yaml").read_text()
    write_profile(text, tmp_path, "mine", replace=True)


def test_a_bad_name_is_caught_when_read_back(tmp_path: Path) -> None:
    text = profile_from_measurements(ROWS, name="Not Good", title="x y z", kind="cpu", date="2026")
    with pytest.raises(ProfileError):
        write_profile(text, tmp_path, "Not Good")


@given(st.text(max_size=80))
def test_slug_is_a_profile_name(text: str) -> None:
    name = slug(text)
    assert name
    assert len(name) <= 60
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789+-")
    assert slug(name) == name
