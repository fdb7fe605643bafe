"""The command line on an existing run folder: tables, JSON, and one clear line for what is wrong."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from roofcast.cli.main import app
from typer.testing import CliRunner

COMMANDS = [
    *("run", "bench", "ceilings", "plot", "project", "loop", "report", "explain"),
    *("compare", "export", "compile", "ops", "doctor"),
]


@pytest.fixture
def run_path(save_run, judged_rows) -> str:
    return str(save_run(judged_rows).path)


def roofcast(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, "-m", "roofcast.cli", *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def parsed(*arguments: str) -> dict:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert f"Example: roofcast {command}" in shown.stdout
    assert "--json" in shown.stdout


def test_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"roofcast {metadata.version('roofcast')}\n"


def test_help_loads_no_numerics() -> None:
    code = (
        "import sys; from roofcast.cli.main import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'numpy', 'pandas', 'numba', 'torch', 'matplotlib', 'pint', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_project_gives_three_systems_with_ordered_bands(run_path: str) -> None:
    rows = parsed("project", run_path)["projections"]
    assert {row["target"] for row in rows} == {"b200-hgx", "gb300-nvl72", "vera-rubin-nvl72"}
    for row in rows:
        assert row["time_low_s"] <= row["time_mid_s"] <= row["time_high_s"]
        assert row["basis"] == "cpu_to_gpu"
        assert row["bound_by"]


def test_loop_on_a_run_writes_its_tables_and_every_figure_has_a_band(run_path: str) -> None:
    parsed("project", run_path)
    rows = parsed("loop", run_path, "--on", "b200,vera-rubin-nvl72")["rows"]
    assert {row["phase"] for row in rows} >= {"rollout", "reward", "logprob", "train", "weight_sync", "step"}
    for row in rows:
        for name in ("time_{}_s", "usd_{}", "kwh_{}", "gpu_hours_{}"):
            low, mid, high = (row[name.format(end)] for end in ("low", "mid", "high"))
            assert low <= mid <= high, (row["phase"], name)
        assert row["basis"]
    assert {"loop.parquet", "loop.csv"} <= {path.name for path in Path(run_path).iterdir()}


def test_explain_ends_at_a_measured_row_and_a_cited_source(run_path: str) -> None:
    parsed("project", run_path)
    kinds = {step["kind"]: step for step in parsed("explain", run_path, "P1")["steps"]}
    assert "attention.decode" in kinds["measurement"]["figures"][0]["value"]
    assert any(figure["source"].startswith("http") for figure in kinds["sources"]["figures"])


def test_plot_and_report_write_files(run_path: str) -> None:
    parsed("project", run_path)
    figures = parsed("plot", run_path)["figures"]
    assert {Path(path).suffix for path in figures} == {".png", ".svg"}
    page = Path(parsed("report", run_path)["report"]).read_text()
    assert "http-equiv" not in page
    assert "attention.decode" in page


def test_ops_lists_operators_with_their_implementations() -> None:
    listed = {row["operator"]: row for row in json.loads(CliRunner().invoke(app, ["ops", "--json"]).stdout)}
    assert listed["sampling.logprob"]["implementations"][:3] == ["numba", "triton", "torch"]


def test_doctor_finds_what_the_suite_itself_uses() -> None:
    done = CliRunner().invoke(app, ["doctor", "--json"])
    levels = {finding["name"]: finding["level"] for finding in json.loads(done.stdout)}
    assert levels["python"] == levels["numba"] == "ok"


def test_brackets_in_a_table_are_text() -> None:
    from roofcast.cli._output import table

    shown = table("[x]", ("what",), [("pip install 'roofcast[torch]'",)])
    assert str(shown.title) == "[x]"
    assert [str(cell) for cell in shown.columns[0].cells] == ["pip install 'roofcast[torch]'"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["project", "{run}", "--to", "vera-rubin-nvl7"], ["vera-rubin-nvl7", "vera-rubin-nvl72"]),
        (["project", "{empty}"], ["measurements.jsonl", "empty"]),
        (["project", "{missing}"], ["does not exist"]),
        (["explain", "{run}", "P999"], ["P999"]),
        (["loop", "--scenario", "{scenario}"], ["rolouts", "rollouts"]),
        (["loop", "--scenario", "nosuch"], ["nosuch", "qwen3-30b-a3b-grpo-math"]),
        (["bench", "--suite", "quikc"], ["quikc", "quick"]),
        (["bench", "--operator", "attention.decod"], ["attention.decode"]),
        (["bench", "--plugin", "{missing}.py"], ["not a Python file"]),
        (["bench", "--budget", "-1"], ["budget", "-1"]),
        (["ceilings", "--out", "{file}/below"], ["choose another --out"]),
        (["hw", "show", "b20"], ["b200"]),
        (["export", "{run}", "--format", "xml"], ["xml", "parquet"]),
        (["compare", "{run}", "{missing}"], ["does not exist"]),
        (["compile", "--target", "sm_9x"], ["sm_9x", "sm_90"]),
        (["compile", "--target", "sm_999"], ["sm_999", "sm_107"]),
        (["compile", "--operator", "nosuch"], ["nosuch", "moe.routing"]),
        (["compile", "--target", ""], ["holds no name"]),
        (["project", "{run}", "--to", ","], ["holds no name"]),
        (["bench", "--cache", "nonsense"], ["nonsense", "cold or warm"]),
        (["bench", "--budget", "inf"], ["budget", "inf"]),
        (["bench", "--memory-limit", "nan"], ["memory-limit", "nan"]),
        (["bench", "--nosuch"], ["--nosuch", "roofcast bench --help"]),
        (["hw", "probe", "--device", "nonsense"], ["nonsense", "cpu"]),
        (["nosuch"], ["nosuch", "roofcast --help"]),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(arguments, words, run_path: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "bad.yaml").write_text("name: x\nmodel: Qwen3-30B-A3B\nalgorithm: {prompts: 1, rolouts: 4}\n")
    names = {
        "run": run_path,
        "empty": tmp_path / "empty",
        "missing": tmp_path / "missing",
        "file": tmp_path / "file",
        "scenario": tmp_path / "bad.yaml",
    }
    done = roofcast(*(argument.format(**names) for argument in arguments))
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize("command", ["bench", "ceilings", "run"])
@pytest.mark.parametrize("device", ["nonsense", "CPU", "cuda:x", "cuda:9999"])
def test_a_device_that_is_not_here_leaves_no_folder(command: str, device: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [command, "--device", device, "--out", str(tmp_path / "run"), "--json"])
    assert type(done.exception).__name__ == "DeviceError"
    assert device in str(done.exception)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "arguments",
    [["hw", "show", "b20"], ["bench", "--cache", "x"], ["project", "--nosuch"], ["explain", "nosuch", "P1"]],
)
def test_with_json_an_error_is_a_document_too(arguments: list[str]) -> None:
    done = roofcast(*arguments, "--json")
    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert document == {"error": done.stderr.strip(), "exit_code": 2}


def test_explain_lists_no_keys_of_measured_rows(run_path: str) -> None:
    done = roofcast("explain", run_path, "zzz")
    assert done.returncode == 2
    assert "only measured rows, by key" in done.stderr
    assert f"roofcast project {run_path}" in done.stderr
    assert len(done.stderr) < 400 + len(run_path) * 2


def test_a_path_that_the_encoding_lacks_is_printed_escaped(run_path: str, monkeypatch, tmp_path: Path) -> None:
    folder = Path(run_path).rename(tmp_path / "r\u00fcn")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = roofcast("export", str(folder), "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert "r\\xfcn" in done.stdout


def test_a_full_device_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "roofcast.cli", "ops", "--json"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write: no space left")
    assert len(done.stderr.splitlines()) == 1


def test_compare_of_a_run_with_itself_finds_nothing_and_a_slower_one_fails_the_gate(
    run_path: str, save_run, judged_rows, tmp_path: Path
) -> None:
    slower = [row if row.record == "ceiling" else _slowed(row, 1.2) for row in judged_rows if row.status == "ok"]
    a, b = tmp_path / "a", tmp_path / "b"
    for path, rows in ((a, [row for row in judged_rows if row.status == "ok"]), (b, slower)):
        Path(save_run(rows).path).rename(path)
    same = roofcast("compare", str(a), str(a), "--fail-above", "5%", "--json")
    assert same.returncode == 0, same.stderr
    assert json.loads(same.stdout)["offenders"] == []
    other = roofcast("compare", str(a), str(b), "--fail-above", "5%", "--json")
    assert other.returncode == 1
    assert len(json.loads(other.stdout)["offenders"]) == sum(row.record == "measurement" for row in slower)


def _slowed(row, factor: float):
    return row.model_copy(update={"samples_s": [factor * s for s in row.samples_s], "median_s": factor * row.median_s})


def test_export_writes_three_tables(run_path: str) -> None:
    names = {Path(path).name for path in parsed("export", run_path, "--format", "csv")["files"]}
    assert names == {"measurements.csv", "samples.csv", "ceilings.csv"}


def test_a_half_written_last_row_is_dropped_with_a_warning(run_path: str) -> None:
    rows = Path(run_path) / "measurements.jsonl"
    with rows.open("a") as file:
        file.write('{"record": "measurement", "key": "att')
    done = roofcast("project", run_path, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["projections"]
    assert "not written to its end" in done.stderr
