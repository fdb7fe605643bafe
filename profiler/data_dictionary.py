"""Write ``docs/data.md`` from the models of the stored records, so that it cannot lie.

Run ``python -m roofcast.profiler.data_dictionary docs/data.md`` after a change of the models.
"""

from __future__ import annotations

import sys
import types
import typing
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from .schema import METHOD_MEANING, SCHEMA_VERSION, STATUS_MEANING, CeilingRow, MachineState, Manifest, Measurement

_SECTIONS: tuple[tuple[type[BaseModel], str], ...] = (
    (Measurement, "`measurements.jsonl`, records with `record` = `measurement`"),
    (MachineState, "The field `state` of both records (columns `state_*` of the frames)"),
    (CeilingRow, "`measurements.jsonl`, records with `record` = `ceiling`"),
    (Manifest, "The file `run.json`"),
)
_HEAD = f"""# The data of a run

This page is generated from `profiler/schema.py`; a test holds the two equal. Schema version: {SCHEMA_VERSION}.

A run folder holds `run.json` (the manifest) and `measurements.jsonl` (one JSON object per line, appended and synced
as each case ends). If a key stands in several rows, the last one counts. Numbers are finite; what cannot be known is
null. Units are SI and stand in the name. Older versions are migrated when they are read.

```python
from roofcast.profiler import load_run

run = load_run("runs/2026-12-01T09-00-00_host")
run.measurements   # pandas: one line per case
run.samples        # long form: key, sample, round, time_s
run.ceilings       # one line per measured ceiling
run.sweeps         # long form: device, threads, working_set_bytes, bytes_per_s
run.manifest       # run.json
```

`roofcast export RUN --format parquet|csv|json` writes the three frames to files.
"""


def data_dictionary() -> str:
    """Return the text of ``docs/data.md``."""
    parts = [_HEAD, "## Status\n", "| status | meaning |\n|---|---|"]
    parts[-1] += "".join(f"\n| `{name}` | {meaning} |" for name, meaning in STATUS_MEANING.items()) + "\n"
    for model, title in _SECTIONS:
        lines = [
            f"## {model.__name__}\n",
            f"{title}. {_summary(model)}\n",
            "| field | type | meaning |",
            "|---|---|---|",
        ]
        for name, field in model.model_fields.items():
            lines.append(f"| `{name}` | {_type_name(field.annotation)} | {field.description or ''} |")
        parts.append("\n".join(lines) + "\n")
        if model is Measurement:
            rows = "".join(f"\n| `{name}` | {meaning} |" for name, meaning in METHOD_MEANING.items())
            parts.append(f"### Keys of `method`\n\n| key | meaning |\n|---|---|{rows}\n")
    return "\n".join(parts)


def _summary(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().split("\n\n", 1)[0].replace("``", "`")


def _type_name(annotation: Any) -> str:
    """Return a type as a reader of the files sees it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type_name(arguments[0])
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("null" if part is type(None) else _type_name(part) for part in arguments)
    if origin is list:
        return f"list of {_type_name(arguments[0])}"
    if origin is dict:
        return f"object of {_type_name(arguments[1])}" if arguments[1] is not Any else "object"
    names = {float: "number", int: "integer", str: "text", bool: "true or false"}
    return names.get(annotation, f"`{getattr(annotation, '__name__', annotation)}`")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(data_dictionary(), encoding="utf-8")
