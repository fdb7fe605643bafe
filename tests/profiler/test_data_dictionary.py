"""The documentation of the data is what the models say, and covers every key that rows hold."""

from pathlib import Path

import pytest
from roofcast.profiler import Manifest, Measurement, measure, migrations
from roofcast.profiler.data_dictionary import data_dictionary
from roofcast.profiler.migrations import MigrationError, migrate
from roofcast.profiler.schema import METHOD_MEANING, CeilingRow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "data.md"


def test_page_is_current():
    assert PAGE.read_text() == data_dictionary(), f"run: python -m roofcast.profiler.data_dictionary {PAGE.name}"


@pytest.mark.parametrize("model", [Measurement, CeilingRow, Manifest])
def test_every_field_is_described(model):
    assert [name for name, field in model.model_fields.items() if not field.description] == []


def test_every_key_of_method_is_described(toy, fast):
    for state in ("cold", "warm"):
        (row,) = measure(toy("double", cache_state=state), fast)
        assert set(row.method) <= set(METHOD_MEANING)


def test_older_rows_are_migrated_step_by_step(monkeypatch):
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", 3)
    steps = {
        1: lambda r: {**r, "time_s": r["time_ms"] / 1e3},
        2: lambda r: {k: v for k, v in r.items() if k != "time_ms"},
    }
    monkeypatch.setattr(migrations, "MIGRATIONS", steps)
    assert migrate({"schema_version": 1, "time_ms": 5.0}) == {"schema_version": 3, "time_s": 0.005}
    with pytest.raises(MigrationError, match="too old"):
        migrate({"schema_version": 0})


@pytest.mark.parametrize("version", [None, "1", 2.0])
def test_rows_without_a_version_are_refused(version):
    with pytest.raises(MigrationError, match="whole number"):
        migrate({"schema_version": version})
