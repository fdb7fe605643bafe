"""Whatever is wrong with a profile, the message names file, line, field, value and remedy."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from roofcast.hwprofiles import ProfileError, load_file, use_directory
from roofcast.hwprofiles.yaml_tree import MAX_BYTES

GOOD = """\
name: mygpu
title: My GPU
kind: gpu
vendor: me
architecture: own
status: shipping
defaults: {source: bench, confidence: medium}
compute:
  sms: 100
  matrix:
    bf16: 1 PFLOP/s
memory:
  dram:
    capacity: 80 GB
    bandwidth: {value: 3 TB/s, range: 2.9..3 TB/s}
links:
  nic: 400 Gb/s
sources:
  bench:
    title: My own measurement
    date: 2026-11-30
"""


def _write(folder: Path, text: str | bytes, name: str = "mygpu") -> Path:
    path = folder / f"{name}.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _problems(path: Path) -> list[str]:
    with pytest.raises(ProfileError) as caught:
        load_file(path)
    assert str(caught.value).startswith(str(caught.value.problems[0]))
    assert all("\n" not in str(p) for p in caught.value.problems)
    return [str(p) for p in caught.value.problems]


def test_the_good_one_loads(tmp_path: Path) -> None:
    profile = load_file(_write(tmp_path, GOOD))
    figure = profile.figures()["memory.dram.bandwidth"]
    assert (figure.value, figure.low, figure.high) == (3e12, 2.9e12, 3e12)
    assert (figure.source, figure.date, figure.confidence) == ("bench", "2026-11-30", "medium")


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "value", "remedy"),
    [
        ("3 TB/s,", "3 TB,", 15, "memory.dram.bandwidth", "'3 TB'", "not a bandwidth"),
        ("value: 3 TB/s", "value: 3 Tb/s", 15, "memory.dram.bandwidth", "'3 Tb/s'", "write 0.375 TB/s"),
        ("value: 3 TB/s", "value: -3 TB/s", 15, "memory.dram.bandwidth", "'-3 TB/s'", "must be above 0"),
        ("value: 3 TB/s", "value: 0 TB/s", 15, "memory.dram.bandwidth", "'0 TB/s'", "must be above 0"),
        ("value: 3 TB/s", "value: .nan", 15, "memory.dram.bandwidth", "'.nan'", "is not a number"),
        ("value: 3 TB/s", "value: 1e30 TB/s", 15, "memory.dram.bandwidth", "'1e30 TB/s'", "prefix is wrong"),
        ("value: 3 TB/s", "value: ''", 15, "memory.dram.bandwidth", "", "write 8 TB/s, or 'unknown'"),
        ("value: 3 TB/s", "value: [3 TB/s]", 15, "memory.dram.bandwidth", "", "is empty"),
        ("2.9..3 TB/s", "2.9..2.95 TB/s", 15, "memory.dram.bandwidth.range", "2.95", "does not contain the value"),
        ("2.9..3 TB/s", "3..2.9 TB/s", 15, "memory.dram.bandwidth.range", "3..2.9", "lower end first"),
        ("range:", "rnage:", 15, "memory.dram.bandwidth.rnage", "", "did you mean range?"),
        ("80 GB", "80 GB/s", 14, "memory.dram.capacity", "'80 GB/s'", "not a size"),
        ("capacity", "capcity", 14, "memory.dram.capcity", "", "did you mean capacity?"),
        ("bf16", "bf61", 11, "compute.matrix.bf61", "", "did you mean bf16"),
        ("links:", "link:", 16, "link", "", "did you mean links"),
        ("sms: 100", "sms: 100 GB", 9, "compute.sms", "'100 GB'", "not a plain number"),
        ("sms: 100", "sms: 100\n  sms: 101", 10, "compute.sms", "", "stands twice, first in line 9"),
        ("sms: 100", "sms: [100]", 9, "compute.sms", "", "is a list"),
        ("  sms: 100", "\tsms: 100", 9, "", "sms: 100", "indent by spaces"),
        ("sms: 100", "sms: &x 100", 9, "compute.sms", "&x", "anchors are not allowed"),
        ("sms: 100", "sms: *x", 9, "compute.sms", "*x", "aliases are not allowed"),
        ("sms: 100", "sms: !!python/object/apply:os.system ['true']", 9, "compute.sms", "python", "tags are not"),
        ("sms: 100", "<<: {sms: 100}", 9, "compute.<<", "", "not a field"),
        ("source: bench", "source: bnech", 9, "compute.sms.source", "bnech", "did you mean bench?"),
        ("source: bench, ", "", 9, "compute.sms", "", "has no source"),
        (", confidence: medium", "", 9, "compute.sms", "", "has no confidence"),
        ("confidence: medium", "confidence: sure", 9, "compute.sms.confidence", "sure", "high, medium, low"),
        ("confidence: medium", "confidnce: medium", 7, "defaults.confidnce", "", "did you mean confidence?"),
        ("    date: 2026-11-30\n", "", 19, "sources.bench.date", "", "is missing"),
        ("2026-11-30", "30.11.2026", 21, "sources.bench.date", "30.11.2026", "write 2026, 2026-09"),
        ("kind: gpu", "kind: gpx", 3, "kind", "gpx", "gpu, cpu, tpu, system"),
        ("status: shipping", "status: soon", 6, "status", "soon", "'cancelled'"),
        ("title: My GPU\n", "", 1, "title", "", "is missing"),
        ("kind: gpu", "kind: gpu\nextends: _hoper", 4, "extends", "_hoper", "_hopper"),
        ("kind: gpu", "kind: gpu\nextends: nosuchdevice", 4, "extends", "nosuchdevice", "roofcast hw list"),
        ("kind: gpu", "kind: gpu\nextends: mygpu", 4, "extends", "mygpu", "mygpu -> mygpu"),
        ("kind: gpu", "kind: gpu\nanchors: {dram.reed: 1 TB/s}", 4, "anchors.dram.reed", "", "name of a ceiling"),
        ("kind: gpu", "kind: gpu\nmatch: {names: []}", 4, "match.names", "", "at least 1"),
        ("source: bench", 'source: "be\\nnch"', 9, "compute.sms.source", "be nch", "did you mean bench?"),
        ("source: bench", "source: {a: b}", 9, "compute.sms", "", "has no source"),
        ("kind: gpu", "kind: gpu\naliases: [{nam: other}]", 4, "aliases.0", "", "did you mean name?"),
        ("kind: gpu", "kind: gpu\naliases: [[other]]", 4, "aliases.0", "", "hw schema"),
        ("name: mygpu", "name: yourgpu", 1, "name", "'yourgpu'", "differs from the file's name"),
    ],
)  # fmt: skip
def test_each_fault_is_named(
    tmp_path: Path, old: str, new: str, line: int, field: str, value: str, remedy: str
) -> None:
    assert old in GOOD
    path = _write(tmp_path, GOOD.replace(old, new, 1))
    use_directory(tmp_path)
    try:
        problems = _problems(path)
    finally:
        use_directory(None)
    hits = [p for p in problems if p.startswith(f"{path}:{line}: ") and remedy in p]
    assert hits, problems
    assert field in hits[0]
    assert value in hits[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "is empty"),
        (b"# nothing\n", "is empty"),
        (b"- a\n- b\n", "is not a mapping"),
        (b"just words", "is not a mapping"),
        (b"name: a\n---\nname: b\n", "second document"),
        (b"name: m\xffygpu\n", "is not UTF-8"),
        (b"name: {a: b\n", "check indentation"),
        (b"a: [" * 40 + b"]" * 40, "deep"),
        (b"? [a]\n: b\n", "a field name must be plain text"),
        (b"x" * (MAX_BYTES + 1), "at most 1 MB"),
        (b"a: *a\n", "aliases are not allowed"),
        (b"%YAML 9.9\n---\na: b\n", ""),
    ],
)
def test_files_that_are_no_profiles(tmp_path: Path, text: bytes, says: str) -> None:
    assert says in _problems(_write(tmp_path, text))[0]


def test_a_file_of_50_mb_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    assert "50 MB" in _problems(path)[0]


def test_all_problems_are_reported(tmp_path: Path) -> None:
    bad = GOOD.replace("80 GB", "80 W").replace("1 PFLOP/s", "1 PB").replace("400 Gb/s", "400 GHz")
    assert len(_problems(_write(tmp_path, bad))) == 3


def test_extends_in_a_circle(tmp_path: Path) -> None:
    for name, parent in (("a", "b"), ("b", "c"), ("c", "b")):
        _write(tmp_path, f"name: {name}\nextends: {parent}\nsources: {{}}\n", name)
    use_directory(tmp_path)
    try:
        assert "goes in a circle: b -> c -> b" in _problems(tmp_path / "a.yaml")[0]
    finally:
        use_directory(None)


def test_a_figure_is_replaced_whole(tmp_path: Path) -> None:
    _write(tmp_path, GOOD)
    child = """\
name: child
title: A variant
kind: gpu
extends: mygpu
memory:
  dram:
    bandwidth: {value: 4 TB/s, source: vendor, confidence: high}
sources:
  vendor: {title: The vendor, date: 2025}
"""
    path = _write(tmp_path, child, "child")
    use_directory(tmp_path)
    try:
        profile = load_file(path)
    finally:
        use_directory(None)
    figure = profile.figures()["memory.dram.bandwidth"]
    assert (figure.low, figure.high, figure.source, figure.date) == (4e12, 4e12, "vendor", "2025")
    assert profile.figures()["memory.dram.capacity"].source == "bench"
    assert set(profile.sources) == {"bench", "vendor"}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_any_bytes_are_a_profile_error(tmp_path: Path, data: bytes) -> None:
    _problems(_write(tmp_path, data))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_is_a_profile_or_a_profile_error(tmp_path: Path, data: st.DataObject) -> None:
    lines = GOOD.splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    junk = data.draw(st.text(max_size=20))
    how = data.draw(st.sampled_from(["replace", "insert", "append"]))
    damaged = [*lines]
    if how == "insert":
        damaged.insert(at, junk)
    else:
        damaged[at] = junk if how == "replace" else damaged[at] + junk
    path = _write(tmp_path, "\n".join(damaged).encode("utf-8", "surrogatepass"))
    with contextlib.suppress(ProfileError):
        assert load_file(path).name == "mygpu"
