"""Run cases into a run folder: in groups, row by row, with what is done already left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .cases import Case, group_cases
from .measuring import Judge, SessionMaker, measure
from .run_folder import RunFolder
from .schema import Measurement
from .session import sessions_in_process
from .settings import Settings

# What a case costs besides its sampling, before there is experience: imports, compilation, inputs, checks, warm-up.
_FIRST_GUESS_S = 6.0


@dataclass(frozen=True)
class Progress:
    """Where a run stands.

    Parameters
    ----------
    done, total
        Cases with a row, and cases of this run (those that were done before it included).
    case
        The case at hand; None when the run starts or ends.
    stage
        What is being done: ``preparing and checking``, ``sampling``, ``checking``, ``written`` or ``done before``.
    row
        The row just written, when the stage is ``written``.
    elapsed_s, remaining_s
        Seconds since the start, and an estimate of those to come.
    """

    done: int
    total: int
    case: Case | None
    stage: str
    elapsed_s: float
    remaining_s: float
    row: Measurement | None = None


def run_cases(
    cases: Sequence[Case],
    folder: RunFolder,
    *,
    settings: Settings | None = None,
    judge: Judge | None = None,
    retry_failed: bool = False,
    isolate: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[Measurement]:
    """Measure cases and append a row for each to the folder as it ends.

    Parameters
    ----------
    cases
        The cases; those whose key the folder holds already are left out.
    folder
        An open run folder.
    judge
        See `measuring.measure`.
    retry_failed
        Measure again the cases whose latest row is a failure.
    isolate
        Run each case in a worker process with the limits of the settings.
    on_progress
        Called at every stage of every case.

    Returns
    -------
    list of Measurement
        The latest row of every case asked for, in the order of ``cases``. Ctrl-C (KeyboardInterrupt) passes
        through; the rows written before it stay.
    """
    settings = settings or Settings()
    wanted = {case.key for case in cases}
    rows = {row.key: row for row in folder.rows() if isinstance(row, Measurement) and row.key in wanted}
    open_cases = [case for case in cases if case.key not in rows or (retry_failed and rows[case.key].status != "ok")]
    tracker = _Tracker(len(cases), len(cases) - len(open_cases), settings, on_progress or _ignore)
    open_sessions = _session_maker(isolate)
    tracker.report(None, "done before")
    for group in group_cases(open_cases):
        by_key = {case.key: case for case in group}
        for row in measure(group, settings, judge=judge, open_sessions=open_sessions, on_stage=tracker.report):
            folder.append(row)
            rows[row.key] = row
            tracker.written(by_key[row.key], row)
    return [rows[case.key] for case in cases]


def run_against_itself(
    cases: Sequence[Case],
    folders: tuple[RunFolder, RunFolder],
    *,
    settings: Settings | None = None,
    judge: Judge | None = None,
    isolate: bool = False,
) -> None:
    """Measure every case twice in turns and write one row to each folder: an A/A run, which shows the noise floor."""
    open_sessions = _session_maker(isolate)
    for case in cases:
        rows = measure([case, case], settings, judge=judge, open_sessions=open_sessions)
        for folder, row in zip(folders, rows, strict=True):
            folder.append(row)


def _session_maker(isolate: bool) -> SessionMaker:
    if isolate:
        from .isolation import sessions_in_workers

        return sessions_in_workers
    return sessions_in_process


class _Tracker:
    """Counts cases and estimates the time left from those of this run."""

    def __init__(self, total: int, done: int, settings: Settings, tell: Callable[[Progress], None]) -> None:
        self._total = total
        self._done = self._done_before = done
        self._guess_s = settings.budget_s + min(settings.warm_up_s, 1.0) + _FIRST_GUESS_S
        self._tell = tell
        self._start = time.monotonic()

    def report(self, case: Case | None, stage: str, row: Measurement | None = None) -> None:
        elapsed = time.monotonic() - self._start
        measured = self._done - self._done_before
        per_case = elapsed / measured if measured else self._guess_s
        remaining = max(0.0, per_case * (self._total - self._done_before) - elapsed)
        self._tell(Progress(self._done, self._total, case, stage, elapsed, remaining, row))

    def written(self, case: Case, row: Measurement) -> None:
        self._done += 1
        self.report(case, "written", row)


def _ignore(progress: Progress) -> None:
    pass
