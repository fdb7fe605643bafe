"""The worked example of the documentation runs as it stands, and its measurement is correct."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_worked_example_of_an_operator_measures_itself(tmp_path: Path) -> None:
    page = (ROOT / "docs/add-an-operator.md").read_text()
    plugin = tmp_path / "rmsnorm.py"
    plugin.write_text("\n\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)))
    (command,) = re.findall(r"^roofcast (bench --plugin .*)$", page, re.MULTILINE)
    small = command.replace("rows=8192,hidden=2048", "rows=13,hidden=200").replace("runs/rmsnorm", "run")
    done = subprocess.run(
        [sys.executable, "-m", "roofcast.cli", *small.split(), "--budget", "0.1", "--no-ceilings", "--json"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["measurements"]
    assert {row["implementation"]: row["status"] for row in rows} == {"torch": "ok", "numba": "ok"}
    assert all(row["speedup"] > 0 for row in rows)


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
