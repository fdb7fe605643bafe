"""Measured tables become rows with the same work that roofcast's own operators count."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from roofcast.cli.main import app
from roofcast.kernels.registry import get_operator, make_workload
from roofcast.roofline.silicon import SiliconMissingError, UnknownGpuError, gpu_names, import_gpu, silicon_gpu
from roofcast.roofline.silicon.attention import map_prefill
from roofcast.roofline.silicon.columns import ROW
from roofcast.roofline.targets import load_target
from typer.testing import CliRunner


@pytest.mark.parametrize("name", gpu_names())
def test_every_gpu_has_a_profile(name: str) -> None:
    assert load_target(silicon_gpu(name).profile).kind == "gpu"


@pytest.mark.usefixtures("silicon")
def test_rows_are_complete_and_unique() -> None:
    rows = import_gpu("h200").rows
    assert set(ROW) <= set(rows.columns)
    assert not rows.duplicated(["group", "workload"]).any()
    assert (rows.time_s > 0).all()
    assert (rows.time_s < 1.0).all()
    assert (rows.read_bytes > 0).all()


@pytest.mark.usefixtures("silicon")
def test_decode_counts_what_the_operator_counts() -> None:
    rows = import_gpu("h200").rows
    decode = rows[(rows.operator == "attention.decode") & (rows.precision == "bf16")]
    operator = get_operator("attention.decode")
    for row in decode.head(20).itertuples():
        fields = dict(part.split("=") for part in str(row.workload).split(", "))
        workload = make_workload(
            "attention.decode",
            {name: int(value) for name, value in fields.items()} | {"precision": "bf16", "page_size": 16},
        )
        cost = operator.cost(workload)
        assert row.flops == pytest.approx(cost.flops["matrix.bf16"])
        assert row.exponentials == pytest.approx(cost.exponentials)
        # The operator also counts page tables and writes fp32.
        assert row.read_bytes == pytest.approx(cost.read_bytes["dram"], rel=0.02)


def test_a_window_limits_the_keys_of_each_query() -> None:
    new, before, window = 5, 7, 4
    table = pd.DataFrame(
        {
            "attn_dtype": ["bfloat16"],
            "kv_cache_dtype": ["bfloat16"],
            "batch_size": [1],
            "isl": [new],
            "step": [before],
            "num_heads": [1],
            "num_key_value_heads": [1],
            "head_dim": [1],
            "window_size": [window],
        }
    )
    seen = [{k for k in range(before + q + 1) if k > before + q - window} for q in range(new)]
    row = map_prefill(table).iloc[0]
    assert row.exponentials == sum(len(keys) for keys in seen)
    assert row.read_bytes == 2 * 2 * len(set.union(*seen)) + 2 * new


@pytest.mark.usefixtures("silicon")
def test_what_is_not_mapped_says_why() -> None:
    report = import_gpu("b200").report
    left = [entry for entry in report if entry.kept == 0]
    assert [entry.table for entry in left] == ["mhc/sglang/0.5.14/mhc_module_perf.parquet"]
    assert "no operator" in left[0].note


@pytest.mark.usefixtures("silicon")
def test_the_cache_gives_the_same_rows(silicon_cache: Path) -> None:
    first = import_gpu("l40s", refresh=True)
    again = import_gpu("l40s")
    assert list(silicon_cache.glob("silicon-l40s-*.parquet"))
    pd.testing.assert_frame_equal(first.rows, again.rows)
    assert first.report == again.report


def test_an_unknown_gpu_names_near_ones() -> None:
    with pytest.raises(UnknownGpuError, match="h200"):
        silicon_gpu("h20")


def test_missing_tables_name_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFCAST_SILICON", str(tmp_path / "none"))
    with pytest.raises(SiliconMissingError, match="ROOFCAST_SILICON"):
        import_gpu("h200")


def test_a_table_that_is_not_one_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "l40s" / "gemm" / "vllm" / "1"
    folder.mkdir(parents=True)
    (folder / "gemm_perf.parquet").write_bytes(b"not parquet")
    monkeypatch.setenv("ROOFCAST_SILICON", str(tmp_path))
    monkeypatch.setenv("ROOFCAST_CACHE", str(tmp_path / "cache"))
    found = import_gpu("l40s")
    assert len(found.rows) == 0
    assert "not readable" in found.report[0].note


@pytest.mark.usefixtures("silicon")
def test_the_command_reports_rows_and_tables() -> None:
    result = CliRunner().invoke(app, ["import", "silicon", "--gpu", "silicon:h200", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)["gpus"][0]
    assert found["gpu"] == "h200"
    assert found["operators"]["attention.decode"] > 0
    assert found["rows"] == sum(found["operators"].values())
    text = CliRunner().invoke(app, ["import", "silicon", "--gpu", "h200"])
    assert "approximation" in text.output
