"""--hwprofiles on every command, and what a name teaches on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import roofcast.hwprofiles
from roofcast.cli.main import app
from roofcast.hwprofiles import use_directory
from typer.testing import CliRunner

SHIPPED = Path(roofcast.hwprofiles.__file__).parent / "gpus"
SCENARIO = "qwen3-30b-a3b-grpo-math"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    text = (SHIPPED / "b200-hgx.yaml").read_text()
    made = text.replace("name: b200-hgx", "name: my-gpu").replace("title: NVIDIA B200 (HGX)", "title: A GPU of mine")
    head, _, rest = made.partition("aliases:\n")
    kept = rest.splitlines(keepends=True)
    while kept and kept[0].startswith(" "):
        kept.pop(0)
    (tmp_path / "my-gpu.yaml").write_text(head + "".join(kept))
    yield tmp_path
    use_directory(None)


def _invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_the_loop_runs_on_a_profile_of_ones_own(own: Path) -> None:
    assert _invoke("loop", SCENARIO, "--on", "my-gpu").exit_code != 0
    done = _invoke("loop", SCENARIO, "--on", "my-gpu", "--hwprofiles", str(own), "--json")
    assert done.exit_code == 0, done.output
    assert {row["system"] for row in json.loads(done.stdout)["rows"]} == {"my-gpu"}


@pytest.mark.parametrize("command", ["what-if", "break-even", "sensitivity", "plan", "project", "compile", "explain"])
def test_every_command_takes_it(command: str) -> None:
    assert "--hwprofiles" in _invoke(command, "--help").output


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    done = _invoke("loop", SCENARIO, "--hwprofiles", str(tmp_path / "nosuch"))
    assert isinstance(done.exception, NotADirectoryError)


def test_a_name_that_was_taken_for_another_is_told_once() -> None:
    done = _invoke("loop", SCENARIO, "--on", "b200,b200-hgx", "--json")
    assert done.exit_code == 0
    assert done.stderr.count("b200 was taken as the HGX bin") == 1
    json.loads(done.stdout)
    assert "note:" not in _invoke("loop", SCENARIO, "--on", "b200-hgx").stderr
