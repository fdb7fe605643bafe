"""Measuring from the command line: failures are rows, Ctrl-C keeps what was measured, --resume goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TOY = Path(__file__).resolve().parents[1] / "profiler/toy_operator.py"
BENCH = [
    *(sys.executable, "-m", "roofcast.cli", "bench", "--plugin", str(TOY), "--operator", "toy.scale"),
    *("--no-ceilings", "--cache", "warm"),
]


def bench(folder: Path, implementations: str, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BENCH, "--workload", "n=1000", "--implementation", implementations, "--out", str(folder), *more],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_failures_are_rows_with_a_reason_and_exit_code_1(tmp_path: Path) -> None:
    done = bench(tmp_path / "run", "double,wrong,raises,nan", "--budget", "0.1", "--json")
    assert done.returncode == 1, done.stderr
    rows = {row["implementation"]: row for row in json.loads(done.stdout)["measurements"]}
    assert {name: row["status"] for name, row in rows.items()} == {
        "double": "ok",
        "wrong": "incorrect",
        "raises": "crashed",
        "nan": "incorrect",
    }
    assert all(row["message"] for name, row in rows.items() if name != "double")
    assert "Traceback" not in done.stderr


def test_ctrl_c_keeps_the_rows_and_resume_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    sizes = [part for n in range(1000, 1030) for part in ("--workload", f"n={n}")]
    command = [*BENCH, *sizes, "--implementation", "double", "--budget", "0.2", "--out", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    rows = folder / "measurements.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (rows.exists() and rows.read_text().count("\n") >= 2):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert f"--resume --out {folder}" in said
    kept = rows.read_text()
    assert 2 <= kept.count("\n") < 30
    again = bench(folder, "double", "--budget", "0.2")
    assert again.returncode == 2
    assert "--resume" in again.stderr
    resumed = subprocess.run([*command, "--resume", "--json"], capture_output=True, text=True, check=False)
    assert resumed.returncode == 0, resumed.stderr
    assert len(json.loads(resumed.stdout)["measurements"]) == 30
    assert rows.read_text().startswith(kept)
