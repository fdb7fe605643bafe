"""The JSON Schema that editors get names every field that the loader takes."""

import json
from pathlib import Path

import yaml
from roofcast.hwprofiles.catalogue import files
from roofcast.hwprofiles.schema import json_schema


def _fields(schema: dict[str, object], name: str) -> set[str]:
    return set(schema["$defs"][name]["properties"])  # type: ignore[index]


def test_schema_is_json_and_covers_the_shipped_files() -> None:
    schema = json_schema()
    json.dumps(schema, allow_nan=False)
    device, system = _fields(schema, "DeviceFile"), _fields(schema, "SystemFile")
    for path in files():
        data = yaml.safe_load(Path(path).read_text())
        known = system if data["kind"] == "system" else device
        assert set(data) <= known, path
        if isinstance(data.get("compute"), dict):
            assert set(data["compute"]) <= _fields(schema, "Compute"), path


def test_schema_describes_figures() -> None:
    schema = json_schema()
    bandwidth = schema["$defs"]["MemoryLevel"]["properties"]["bandwidth"]
    assert "8 TB/s" in json.dumps(bandwidth)
    assert "range" in json.dumps(bandwidth)
