"""``roofcast hw``: tables that read well, JSON that parses, exit codes."""

import json
from pathlib import Path

import pytest
from roofcast.cli.hw import app
from roofcast.hwprofiles import UnknownProfileError, use_directory
from roofcast.hwprofiles.catalogue import files
from typer.testing import CliRunner, Result


@pytest.fixture(autouse=True)
def _no_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    monkeypatch.delenv("ROOFCAST_HWPROFILES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    yield
    use_directory(None)


def _run(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(args))
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.mark.parametrize("command", ["list", "show", "compare", "check", "probe", "schema", "identify"])
def test_help_has_an_example(command: str) -> None:
    assert f"Example: roofcast hw {command}" in _run(command, "--help").output.replace("\n", " ")


def test_list() -> None:
    out = _run("list", "--kind", "gpu", "--vendor", "amd").output
    assert "mi355x" in out
    assert "b200" not in out
    rows = json.loads(_run("list", "--json").stdout)
    assert len(rows) == len(files())


def test_show_names_sources_and_marks() -> None:
    out = _run("show", "rubin").output
    for word in ("sparse by footnote 1", "19.2 (to 22) TB/s", "0.25 POP/s?", "Sources:", "nvidia.com", "sm_107"):
        assert word in " ".join(out.split()), word
    data = json.loads(_run("show", "vr nvl72", "--json").stdout)
    assert data["gpu"]["ceilings"]["dram.read"]["high"] == 22e12


def test_show_tells_what_became_of_a_cancelled_product() -> None:
    result = _run("show", "rubin cpx")
    assert "removed from NVIDIA's roadmap" in " ".join(result.output.split())


def test_compare_fits_in_100_columns() -> None:
    out = _run("compare", "b200-hgx", "gb300", "rubin-r200").stdout
    table = [line.rstrip() for line in out.splitlines()]
    assert max(map(len, table)) <= 100
    bandwidth = next(line for line in table if line.strip().startswith("bandwidth"))
    assert bandwidth.split() == ["bandwidth,", "TB/s", "7.67", "(to", "8)", "8", "1.04x", "19.2", "(to", "22)", "2.50x"]
    data = json.loads(_run("compare", "b200,gb300", "rubin", "--json").stdout)
    assert data["profiles"] == ["b200-hgx", "gb300", "rubin-r200"]
    assert "series" in _run("compare", "b200-hgx", "rubin-r200", "--notes").output


def test_check_counts_and_passes() -> None:
    out = _run("check").output
    assert f"{len(files())} files" in out
    assert "0 of them not explained" in out
    assert "sources" in out
    assert json.loads(_run("check", "--json").stdout)["unexplained"] == 0


def test_check_of_own_files(tmp_path: Path) -> None:
    good = files()[0].read_text()
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: bad\nkind: gpu\nmemory: {dram: {bandwidth: 8 TB}}\n")
    out = _run("check", str(bad), code=2).output
    assert "bad.yaml:3" in out
    unexplained = tmp_path / f"{files()[0].stem}.yaml"
    unexplained.write_text(good.replace("1555 GB/s", "1.2 TB/s").replace("    bus:", "    data_rate: 3 Gb/s\n    bus:"))
    assert "not explained" in _run("check", str(unexplained), code=1).output


def test_unknown_names_are_the_rooms_error() -> None:
    result = CliRunner().invoke(app, ["show", "b2000"])
    assert isinstance(result.exception, UnknownProfileError)
    assert "b200" in str(result.exception)


def test_schema_is_json() -> None:
    assert json.loads(_run("schema").stdout)["title"] == "roofcast hardware profile"


def test_directory_option(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "name: mine\ntitle: Mine\nkind: gpu\nvendor: me\narchitecture: own\nstatus: shipping\n"
        "memory: {dram: {bandwidth: {value: 1 TB/s, source: s, confidence: low}}}\n"
        "sources: {s: {title: Some source, date: 2026}}\n"
    )
    assert "1 TB/s?" in _run("--hwprofiles", str(tmp_path), "show", "mine").output


def test_identify() -> None:
    items = json.loads(_run("identify", "--json").stdout)
    assert items[0]["device"] == "cpu"
    assert items[0]["seen"]


def test_probe_refuses_to_overwrite_before_it_measures(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("x")
    result = CliRunner().invoke(app, ["probe", "--out", str(tmp_path), "--name", "mine"])
    assert isinstance(result.exception, FileExistsError)
    assert (tmp_path / "mine.yaml").read_text() == "x"
