"""The matched rows of pairs of GPUs that teach a transfer, kept in the cache."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..silicon import silicon_gpu
from ..silicon.importing import cache_folder, tables_fingerprint
from .device import Speeds
from .pairs import LEAST_SHAPES, TransferBasis, basis_between, gpu_speeds, matched

if TYPE_CHECKING:
    import pandas as pd

# Rows per group and pair: enough for a median and for the ends of a band over many groups.
ROWS_PER_GROUP = 250
_CACHE_VERSION = 1


@dataclass(frozen=True)
class Lesson:
    """The matched rows of one pair of GPUs."""

    source: str
    target: str
    rows: pd.DataFrame

    @property
    def speeds(self) -> tuple[Speeds, Speeds]:
        """Speeds of both."""
        return gpu_speeds(self.source), gpu_speeds(self.target)

    @property
    def basis(self) -> TransferBasis:
        """What a transfer between the two stands on."""
        return basis_between(*self.speeds)

    @property
    def families(self) -> set[str]:
        """Families of both."""
        return {silicon_gpu(self.source).family, silicon_gpu(self.target).family}


def lessons(pairs: Iterable[tuple[str, str]]) -> list[Lesson]:
    """Return the lessons of pairs that have kernels in common."""
    found = [Lesson(a, b, _rows(a, b)) for a, b in pairs]
    return [lesson for lesson in found if len(lesson.rows) >= LEAST_SHAPES]


def _rows(source: str, target: str) -> pd.DataFrame:
    import pandas as pd

    key = [_CACHE_VERSION, ROWS_PER_GROUP, tables_fingerprint(source), tables_fingerprint(target)]
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
    file = cache_folder() / f"pair-{source}-{target}-{name}.parquet"
    if file.exists():
        return pd.read_parquet(file)
    rows = matched(source, target, most=ROWS_PER_GROUP)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.{os.getpid()}")
    rows.to_parquet(part)
    part.replace(file)
    return rows
