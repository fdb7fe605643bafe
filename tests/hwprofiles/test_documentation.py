"""The examples of docs/hardware.md do what the page says."""

import re
from pathlib import Path

import pytest
from roofcast.hwprofiles import load, use_directory
from roofcast.hwprofiles.catalogue import files
from roofcast.hwprofiles.crosscheck import audit

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "hardware.md").read_text()


def _block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_own_profile(tmp_path: Path) -> None:
    (tmp_path / "b200-ours.yaml").write_text(_block("yaml"))
    use_directory(tmp_path)
    try:
        ours, shipped = load("our b200").figures(), load("b200-hgx").figures()
        found = audit([tmp_path / "b200-ours.yaml"])
    finally:
        use_directory(None)
    assert ours["memory.dram.bandwidth"].source == "our-acceptance-test"
    assert ours["compute.matrix.bf16"] == shipped["compute.matrix.bf16"]
    assert "prices.on_demand" not in ours
    assert found.problems == []
    assert found.unexplained == []


def test_python_example(capsys: pytest.CaptureFixture[str]) -> None:
    exec(_block("python"), {})
    assert capsys.readouterr().out.startswith("19.2 TB/s (19.2 to 22.0), NVIDIA Vera Rubin NVL72 product page")


def test_the_number_of_profiles_is_right() -> None:
    assert f"{len(files())} of them" in PAGE
