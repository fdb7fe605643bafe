"""Cut prefill attention into blocks of queries of a head."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...matmul.panels import PANEL
from .operator import AttentionPrefill

QUERIES = 8 * PANEL
"""Most queries of a task: they amortise the copies of keys and values."""
_TASKS_PER_THREAD = 8


def list_tasks(w: AttentionPrefill, query_offsets: Any, key_offsets: Any, rows: int) -> Any:
    """Return sequence, head, first query and queries of every task, those that see most pairs first."""
    tasks, sizes = [], []
    for b in range(w.batch):
        queries, keys = (int(o[b + 1] - o[b]) for o in (query_offsets, key_offsets))
        low, high = w.mask.ranges(queries, keys)
        seen = np.add.reduceat(high - low, np.arange(0, queries, rows))
        for head in range(w.q_heads):
            for i, first in enumerate(range(0, queries, rows)):
                tasks.append((b, head, first, min(rows, queries - first)))
                sizes.append(-int(seen[i]))
    return np.asarray(tasks, np.int64)[np.argsort(sizes, kind="stable")]


def task_rows(w: AttentionPrefill, threads: int) -> int:
    """Return the queries of a task: as many as leave every thread several tasks."""
    rows = QUERIES
    while rows > PANEL and sum(-(-n // rows) for n, _ in w.sequences()) * w.q_heads < threads * _TASKS_PER_THREAD:
        rows //= 2
    return rows
