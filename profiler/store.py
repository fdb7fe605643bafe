"""Read a run folder: rows, manifest, and pandas frames of both."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from .migrations import migrate
from .schema import RECORD, CeilingRow, MachineState, Manifest, Measurement

if TYPE_CHECKING:
    import pandas as pd

ROWS_NAME = "measurements.jsonl"
MANIFEST_NAME = "run.json"
_NEW_MANIFEST = "mend it, or take it away and run with --resume, which writes a new one and keeps the rows"
_LONGEST_VALUE = 60


class StoreError(ValueError):
    """A run folder that cannot be read; the message names file, line and remedy."""


class HalfWrittenRowWarning(UserWarning):
    """The last row of a run was not written to its end and is left out."""


@dataclass(frozen=True)
class Rows:
    """All rows of a run in the order in which they were written, and what had to be left out."""

    all: list[Measurement | CeilingRow]
    warnings: list[str] = field(default_factory=list)

    def latest(self) -> list[Measurement | CeilingRow]:
        """Return the last row of every key, in order of the keys' first appearance."""
        return list({row.key: row for row in self.all}.values())


def read_rows(path: Path) -> Rows:
    """Read ``measurements.jsonl`` of a run folder.

    A last line without an end is what a killed writer leaves; it is dropped with a warning.

    Raises
    ------
    StoreError
        If the file is missing, or a whole line is not a row; the message names the line.
    """
    file = path / ROWS_NAME
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        what = "is empty" if path.is_dir() else "does not exist"
        raise StoreError(f"{file} is missing: run folder {path} {what}; give a folder that roofcast wrote") from None
    except OSError as error:
        raise _unreadable(file, error) from None
    whole, _, rest = text.rpartition("\n")
    notes = []
    if rest.strip():
        notes.append(f"{file}: the last row was not written to its end and is left out")
        warnings.warn(notes[-1], HalfWrittenRowWarning, stacklevel=2)
    lines = whole.split("\n") if whole else []
    return Rows([_row(file, number, line) for number, line in enumerate(lines, 1) if line.strip()], notes)


def _row(file: Path, number: int, line: str) -> Measurement | CeilingRow:
    try:
        return RECORD.validate_python(migrate(json.loads(line)))
    except ValidationError as error:
        raise StoreError(f"{file}:{number}: {_first_problem(error)}; mend or remove this line") from None
    except (ValueError, RecursionError) as error:  # No JSON, no record, or brackets without end.
        raise StoreError(f"{file}:{number}: {error}; mend or remove this line") from None


def read_manifest(path: Path) -> Manifest:
    """Read ``run.json`` of a run folder.

    Raises
    ------
    StoreError
        If it is missing or malformed.
    """
    file = path / MANIFEST_NAME
    try:
        return Manifest.model_validate(migrate(json.loads(file.read_text(encoding="utf-8"))))
    except FileNotFoundError:
        raise StoreError(f"{file} is missing: {path} is not a run folder; give a folder that roofcast wrote") from None
    except OSError as error:
        raise _unreadable(file, error) from None
    except ValidationError as error:
        raise StoreError(f"{file}: {_first_problem(error)}; {_NEW_MANIFEST}") from None
    except (ValueError, RecursionError) as error:  # No JSON, no UTF-8, no record, or brackets without end.
        raise StoreError(f"{file}: {error}; {_NEW_MANIFEST}") from None


def _unreadable(file: Path, error: OSError) -> StoreError:
    return StoreError(f"{file}: cannot be read: {error.strerror}; give a folder that roofcast wrote")


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"]) or "row"
    value = repr(problem["input"])
    shown = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}..."
    return f"{where}: {problem['msg']}" + ("" if problem["type"] == "missing" else f", not {shown}")


@dataclass(frozen=True)
class Run:
    """A run as it stands on the disk: the latest row of every key.

    ``measurements``, ``samples`` and ``ceilings`` are pandas frames, made when first asked for.
    """

    path: Path
    manifest: Manifest
    rows: Rows

    @cached_property
    def measurement_rows(self) -> list[Measurement]:
        """The measurements, the latest of each case."""
        return [row for row in self.rows.latest() if isinstance(row, Measurement)]

    @cached_property
    def ceiling_rows(self) -> list[CeilingRow]:
        """The measured ceilings, the latest of each."""
        return [row for row in self.rows.latest() if isinstance(row, CeilingRow)]

    @property
    def warnings(self) -> list[str]:
        """Sentences on what could not be read."""
        return self.rows.warnings

    @cached_property
    def measurements(self) -> pd.DataFrame:
        """One line per case; the state's fields stand in columns ``state_*``, samples in `samples`."""
        return _frame(Measurement, self.measurement_rows, leave_out={"samples_s"})

    @cached_property
    def samples(self) -> pd.DataFrame:
        """Long form: ``key``, ``sample`` (from 0), ``round`` (turn in the interleaving), ``time_s``."""
        import pandas as pd

        parts: list[dict[str, Any]] = []
        for row in self.measurement_rows:
            rounds = [n for n, size in enumerate(row.method.get("round_sizes", [])) for _ in range(size)]
            for index, value in enumerate(row.samples_s):
                turn = rounds[index] if index < len(rounds) else 0
                parts.append({"key": row.key, "sample": index, "round": turn, "time_s": value})
        return pd.DataFrame(parts, columns=["key", "sample", "round", "time_s"])

    @cached_property
    def ceilings(self) -> pd.DataFrame:
        """One line per measured ceiling."""
        return _frame(CeilingRow, self.ceiling_rows, leave_out={"samples", "sweep"})

    @cached_property
    def sweeps(self) -> pd.DataFrame:
        """Read bandwidth over working set, long form: ``device``, ``threads``, ``working_set_bytes``, ``bytes_per_s``.

        One sweep per device and number of threads: the one that the last of its memory levels was looked for in.
        """
        import pandas as pd

        latest = {(row.device, row.threads): row.sweep for row in self.ceiling_rows if row.sweep}
        points = [(*where, size, rate) for where, sweep in latest.items() for size, rate in sweep]
        return pd.DataFrame(points, columns=["device", "threads", "working_set_bytes", "bytes_per_s"])


def _frame(model: type[Measurement | CeilingRow], rows: list[Any], leave_out: set[str]) -> pd.DataFrame:
    import pandas as pd

    names = [name for name in model.model_fields if name not in leave_out | {"state"}]
    state_names = list(MachineState.model_fields)
    lines = []
    for row in rows:
        line = {name: getattr(row, name) for name in names}
        line |= {f"state_{name}": getattr(row.state, name) for name in state_names}
        lines.append(line)
    return pd.DataFrame(lines, columns=[*names, *(f"state_{name}" for name in state_names)])


def load_run(path: Path | str) -> Run:
    """Read a run folder.

    Parameters
    ----------
    path
        The folder, such as ``runs/2026-12-01T09-00-00_host``.

    Returns
    -------
    Run
        Rows and manifest, with pandas frames ``measurements``, ``samples`` and ``ceilings``.

    Raises
    ------
    StoreError
        If the folder does not exist, is empty or holds a malformed row; the message names file, line and remedy.
    """
    path = Path(path)
    rows = read_rows(path)
    return Run(path, read_manifest(path), rows)
