"""Import a GPU's measured tables as rows with the work counted, and report what could not be mapped."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .columns import ROW, TEXT, WORK
from .gpus import SiliconGpu, silicon_gpu
from .mapping import MAPPINGS, reason_unmapped
from .package import SiliconMissingError, tables_folder, tables_version

if TYPE_CHECKING:
    import pandas as pd

_SUFFIX = "_perf.parquet"
# Goes up when a mapper counts differently, so that caches made before are not read.
_CACHE_VERSION = 1


@dataclass(frozen=True)
class TableReport:
    """What became of one table: rows read, kept, and why others were not."""

    table: str
    rows: int
    kept: int
    note: str


@dataclass(frozen=True)
class Silicon:
    """The measured rows of one GPU.

    Parameters
    ----------
    rows
        Columns of `columns.ROW`, and ``group``: framework, version, operator, kernel and precision as one. Where a
        case was measured more than once its median stands.
    report
        One entry per table of the package, mapped or not.
    source
        Citation of the tables.
    """

    gpu: SiliconGpu
    rows: pd.DataFrame
    report: tuple[TableReport, ...]
    source: str


def cache_folder() -> Path:
    """Return the folder of imported tables: ``ROOFCAST_CACHE``, or the user's cache."""
    if named := os.environ.get("ROOFCAST_CACHE"):
        return Path(named)
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("roofcast", appauthor=False))


def import_gpu(name: str, *, refresh: bool = False) -> Silicon:
    """Return a GPU's rows, read from the cache where the tables have not changed since.

    Parameters
    ----------
    refresh
        Read the tables again even so.

    Raises
    ------
    UnknownGpuError
        If there are no tables of that GPU.
    SiliconMissingError
        If the tables are not installed.
    """
    gpu, folder, files = _files(name)
    stem = cache_folder() / f"silicon-{gpu.name}-{_fingerprint(files)}"
    rows, report = stem.with_suffix(".parquet"), stem.with_suffix(".json")
    if not refresh and rows.exists() and report.exists():
        import pandas as pd

        notes = tuple(TableReport(**entry) for entry in json.loads(report.read_text(encoding="utf-8")))
        return Silicon(gpu, pd.read_parquet(rows), notes, tables_version())
    made = _read(gpu, folder, files)
    _keep(made, rows, report)
    return made


def has_tables(name: str) -> bool:
    """Whether the tables that are installed include a GPU's.

    Raises
    ------
    UnknownGpuError, SiliconMissingError
        As `import_gpu`.
    """
    return (tables_folder() / silicon_gpu(name).folder).is_dir()


def tables_fingerprint(name: str) -> str:
    """Return a short text that changes when a GPU's tables, or how they are mapped, do.

    Raises
    ------
    UnknownGpuError, SiliconMissingError
        As `import_gpu`.
    """
    return _fingerprint(_files(name)[2])


def _files(name: str) -> tuple[SiliconGpu, Path, list[Path]]:
    gpu = silicon_gpu(name)
    folder = tables_folder() / gpu.folder
    files = sorted(folder.glob(f"*/*/*/*{_SUFFIX}"))
    if not files:
        raise SiliconMissingError(f"{folder}: no measured tables of {gpu.name} here; install or name a full set")
    return gpu, folder, files


def _keep(made: Silicon, rows: Path, report: Path) -> None:
    rows.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps([asdict(entry) for entry in made.report])
    # Written aside and moved, so that two imports at once never read half a file.
    for path, write in ((rows, made.rows.to_parquet), (report, lambda p: p.write_text(text, encoding="utf-8"))):
        part = path.with_name(f"{path.name}.{os.getpid()}")
        write(part)
        part.replace(path)


def _fingerprint(files: list[Path]) -> str:
    seen = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(json.dumps([_CACHE_VERSION, seen]).encode()).hexdigest()[:16]


def _read(gpu: SiliconGpu, folder: Path, files: list[Path]) -> Silicon:
    import pandas as pd

    report: list[TableReport] = []
    parts = list(_parts(folder, files, report))
    rows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*ROW, "group"])
    for name in (*TEXT, "group"):
        rows[name] = rows[name].astype("category")
    return Silicon(gpu, rows, tuple(report), tables_version())


def _parts(folder: Path, files: list[Path], report: list[TableReport]) -> Iterator[pd.DataFrame]:
    import pandas as pd

    for file in files:
        table = str(file.relative_to(folder))
        kind = file.name.removesuffix(_SUFFIX)
        try:
            raw = pd.read_parquet(file)
        except (OSError, ValueError) as error:
            report.append(TableReport(table, 0, 0, f"not readable: {error}"))
            continue
        mapping = MAPPINGS.get(kind)
        if mapping is None:
            report.append(TableReport(table, len(raw), 0, reason_unmapped(kind)))
            continue
        try:
            made = _rows(mapping.mapper(raw[raw["latency"] > 0]))
        except (KeyError, AttributeError) as error:
            report.append(TableReport(table, len(raw), 0, f"a column is missing: {error}"))
            continue
        report.append(TableReport(table, len(raw), len(made), mapping.approximation))
        yield made


def _rows(table: Any) -> pd.DataFrame:
    """Return the canonical columns, one row per case, times in seconds."""
    import numpy as np

    table = table.assign(kernel=table["kernel_source"], time_s=table["latency"].astype(float) * 1e-3)
    for name in WORK:
        table[name] = table[name].astype(float) if name in table else 0.0
    table["launches"] = table.get("launches", 1)
    table = table[list(ROW)].copy()
    for name in ("framework", "version", "kernel", "precision"):
        table[name] = table[name].astype(str)
    table["framework"] = table["framework"].str.lower()
    named = [table[name] for name in ("framework", "version", "operator", "kernel", "precision")]
    table["group"] = named[0].str.cat(named[1:], sep=" | ")
    key = ["group", "workload"]
    table["time_s"] = table.groupby(key, observed=True)["time_s"].transform("median")
    table = table.drop_duplicates(key)
    return table[np.isfinite(table["flops"] + table["read_bytes"])]
