"""Rows survive crashes, locks hold, resuming leaves out what is done."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from roofcast import profiler
from roofcast.profiler import (
    HalfWrittenRowWarning,
    RunFolder,
    RunFolderError,
    StoreError,
    export_run,
    load_run,
    run_cases,
)
from roofcast.profiler.export import FORMATS, ExportError


def _run(toy, fast, path, *names, **options):
    with RunFolder.create(path, resume=options.pop("resume", False)) as folder:
        rows = run_cases(toy(*names), folder, settings=fast, **options)
        folder.finish()
    return {row.implementation: row.status for row in rows}


def test_every_public_name_is_found():
    assert set(profiler.__all__) == set(profiler._HOME)
    for name in profiler.__all__:
        assert callable(getattr(profiler, name))


@pytest.mark.parametrize("kind", FORMATS)
def test_export(toy, fast, tmp_path, kind):
    _run(toy, fast, tmp_path / "run", "double", "wrong")
    run = load_run(tmp_path / "run")
    paths = export_run(run, kind, tmp_path / "tables")
    assert [path.name for path in paths] == [f"{name}.{kind}" for name in ("measurements", "samples", "ceilings")]
    read = {"parquet": pd.read_parquet, "csv": pd.read_csv, "json": pd.read_json}[kind]
    assert list(read(paths[0])["median_s"].dropna()) == pytest.approx([run.measurement_rows[1].median_s])
    assert list(read(paths[1])["time_s"]) == pytest.approx(run.measurement_rows[1].samples_s, rel=1e-9)
    cost = read(paths[0])["cost"][0]
    assert (cost if kind == "json" else json.loads(cost))["read_bytes"] == {"dram": 80_000.0}


def test_export_refuses_what_it_cannot_write(toy, fast, tmp_path):
    _run(toy, fast, tmp_path / "run", "wrong")
    run = load_run(tmp_path / "run")
    with pytest.raises(ExportError, match="parquet, csv, json"):
        export_run(run, "xml")
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="choose another folder"):
        export_run(run, "csv", tmp_path / "file" / "tables")


def test_round_trip(toy, fast, tmp_path):
    _run(toy, fast, tmp_path / "a", "double", "wrong")
    run = load_run(tmp_path / "a")
    assert run.manifest.complete
    assert list(run.measurements["status"]) == ["incorrect", "ok"]
    good = run.measurement_rows[1]
    assert list(run.samples["time_s"]) == good.samples_s
    assert run.samples["round"].max() == len(good.method["round_sizes"]) - 1
    assert run.ceilings.empty
    assert "value" in run.ceilings.columns


def test_resume_leaves_out_what_is_done(toy, fast, tmp_path):
    _run(toy, fast, tmp_path, "double", "wrong")
    again = _run(toy, fast, tmp_path, "double", "wrong", "twice", resume=True)
    assert again == {"double": "ok", "wrong": "incorrect", "twice": "ok"}
    assert len((tmp_path / "measurements.jsonl").read_text().splitlines()) == 3
    _run(toy, fast, tmp_path, "double", "wrong", "twice", resume=True, retry_failed=True)
    assert len((tmp_path / "measurements.jsonl").read_text().splitlines()) == 4
    assert len(load_run(tmp_path).measurements) == 3


def test_existing_run_is_not_overwritten(toy, fast, tmp_path):
    _run(toy, fast, tmp_path, "double")
    with pytest.raises(RunFolderError, match="--resume"):
        RunFolder.create(tmp_path)


def test_second_writer_is_refused(tmp_path):
    says = f"in use by another run \\(process {os.getpid()}\\)"
    with RunFolder.create(tmp_path), pytest.raises(RunFolderError, match=says):
        RunFolder.create(tmp_path, resume=True)
    RunFolder.create(tmp_path, resume=True).close()


def test_lock_ends_with_its_process(tmp_path):
    code = (
        "import os, pathlib, signal; from roofcast.profiler import RunFolder;"
        f"f = RunFolder.create(pathlib.Path({str(tmp_path)!r})); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    RunFolder.create(tmp_path, resume=True).close()


def test_lock_is_not_kept_by_what_the_run_forked(tmp_path):
    code = (
        "import os, pathlib, signal, time; from roofcast.profiler import RunFolder;"
        f"f = RunFolder.create(pathlib.Path({str(tmp_path)!r})); child = os.fork();"
        "child or time.sleep(20); print(child, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert parent.wait() == -signal.SIGKILL
    try:
        _open_within(tmp_path, seconds=10)  # The child lets go when it first runs, which may be after its parent's end.
    finally:
        os.kill(child, signal.SIGKILL)


def _open_within(path, seconds):
    deadline = time.monotonic() + seconds
    while True:
        try:
            return RunFolder.create(path, resume=True).close()
        except RunFolderError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_half_written_row_is_dropped_and_cut(toy, fast, tmp_path):
    _run(toy, fast, tmp_path, "double", "twice")
    rows = tmp_path / "measurements.jsonl"
    whole = rows.read_bytes()
    first, second = (json.loads(line)["implementation"] for line in whole.splitlines())  # as they happened to end
    rows.write_bytes(whole[:-40])
    with pytest.warns(HalfWrittenRowWarning, match="left out"):
        run = load_run(tmp_path)
    assert list(run.measurements["implementation"]) == [first]
    assert run.warnings
    with pytest.warns(HalfWrittenRowWarning):
        load_run(tmp_path)
    assert _run(toy, fast, tmp_path, "double", "twice", resume=True) == {"double": "ok", "twice": "ok"}
    assert [json.loads(line)["implementation"] for line in rows.read_text().splitlines()] == [first, second]


def test_interrupt_keeps_rows(toy, fast, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        _run(toy, fast, tmp_path, "wrong", "interrupt")
    assert list(load_run(tmp_path).measurements["implementation"]) == ["wrong"]
    RunFolder.create(tmp_path, resume=True).close()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{not json}\n", r"measurements.jsonl:1: Expecting property name"),
        ('{"record": "measurement", "schema_version": 1}\n', r"measurements.jsonl:1: .*Field required"),
        ('{"record": "measurement", "schema_version": 99}\n', "newer roofcast"),
        ("[1]\n", "JSON object"),
        pytest.param("[" * 100_000 + "\n", r"measurements.jsonl:1: .*mend or remove", id="brackets"),
        ('{"record": "ceiling", "schema_version": 2, "threads": "many"}\n', r"jsonl:1: ceiling.*"),
    ],
)
def test_malformed_row_is_named(toy, tmp_path, content, says):
    RunFolder.create(tmp_path).close()
    (tmp_path / "measurements.jsonl").write_text(content)
    with pytest.raises(StoreError, match=says):
        load_run(tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{not json}", r"run\.json: Expecting property name.*--resume"),
        (b'{"schema_version": 99}', r"run\.json: .*newer roofcast"),
        (b'{"schema_version": "x"}', r"run\.json: schema_version = 'x'"),
        (b"\xff\xfe", r"run\.json: .*--resume"),
        pytest.param(b"[" * 100_000, r"run\.json: .*--resume", id="brackets"),
    ],
)
def test_malformed_manifest_is_named(tmp_path, content, says):
    RunFolder.create(tmp_path).close()
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(StoreError, match=says):
        load_run(tmp_path)
    with pytest.raises(StoreError, match=says):
        RunFolder.create(tmp_path, resume=True)
    (tmp_path / "run.json").unlink()
    RunFolder.create(tmp_path, resume=True).close()  # The remedy works.
    assert load_run(tmp_path).rows.all == []


def test_a_wrong_value_is_shown(tmp_path):
    RunFolder.create(tmp_path).close()
    manifest = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(manifest | {"complete": "perhaps"}))
    with pytest.raises(StoreError, match=r"complete: .*not 'perhaps'"):
        load_run(tmp_path)


def test_what_is_no_file_is_named(tmp_path):
    (tmp_path / "measurements.jsonl").mkdir()
    with pytest.raises(StoreError, match=r"measurements\.jsonl: cannot be read: .*give a folder"):
        load_run(tmp_path)
    with pytest.raises(StoreError, match="cannot be read: Not a directory; give a folder"):
        load_run("/dev/null")
    with pytest.raises(RunFolderError, match="choose another --out"):
        RunFolder.create(Path("/dev/null"))


def test_what_is_no_run_folder(tmp_path):
    with pytest.raises(StoreError, match="is empty"):
        load_run(tmp_path)
    with pytest.raises(StoreError, match="does not exist"):
        load_run(tmp_path / "nosuch")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="choose another --out"):
        RunFolder.create(tmp_path / "file" / "run")


def test_nan_is_never_written(toy, fast, tmp_path):
    with RunFolder.create(tmp_path) as folder:
        (row,) = run_cases(toy("double"), folder, settings=fast)
        with pytest.raises(ValueError, match="JSON compliant"):
            folder.append(row.model_copy(update={"median_s": float("nan")}))


def test_progress_counts_to_the_end(toy, fast, tmp_path):
    seen = []
    with RunFolder.create(tmp_path) as folder:
        run_cases(toy("double", "wrong"), folder, settings=fast, on_progress=seen.append)
    written = [p for p in seen if p.stage == "written"]
    assert [p.done for p in written] == [1, 2]
    assert all(p.total == 2 and p.remaining_s >= 0 for p in seen)
    assert {p.row.implementation for p in written} == {"double", "wrong"}
    assert Path(tmp_path / "run.json").exists()
