"""Measure again the ceilings that a point was faster than, before the point is refused for good.

Other work on the machine can slow the kernel that measures a ceiling more than the points measured after it. A point
above such a ceiling is no fault of its own, and the ceiling is cheap to measure again.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..profiler.ceilings import measure_ceilings
from ..profiler.run_folder import RunFolder
from ..profiler.schema import CeilingRow, Measurement
from ..profiler.store import load_run
from .judge import judge
from .run_ceilings import ceilings_of_run


def second_look(folder: RunFolder, rows: Sequence[Measurement], *, most: int = 2) -> list[Measurement]:
    """Return the rows judged by the better of the old and the new ceilings.

    New ceilings that are faster, and rows whose judgement they change, are appended to the folder.

    Parameters
    ----------
    most
        How often the ceilings that refused rows were faster than are measured again.
    """
    judged = list(rows)
    for _ in range(most):
        better = [_measure_again(folder, device, names) for device, names in _broken(judged).items()]
        if not any(better):
            break
        judge_row = judge(ceilings_of_run(load_run(folder.path)))
        for index, row in enumerate(judged):
            again = judge_row(row)
            if again != row:
                folder.append(again)
                judged[index] = again
    return judged


def _broken(rows: Sequence[Measurement]) -> dict[str, list[str]]:
    """Return the ceilings by device that refused rows were faster than."""
    broken: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.status == "above_roof" and row.median_s is not None:
            names = [name for name, roof_s in row.roofs_s.items() if roof_s > row.median_s]
            broken.setdefault(row.device, {}).update(dict.fromkeys(names))
    return {device: list(names) for device, names in broken.items()}


def _measure_again(folder: RunFolder, device: str, names: list[str]) -> bool:
    """Append the ceilings that come out faster than before, and return whether there are any."""
    before = {row.name: row for row in folder.rows() if isinstance(row, CeilingRow) and row.device == device}
    found = False
    for row in measure_ceilings(device, names=names):
        old = before.get(row.name)
        if row.status == "ok" and row.value is not None and (old is None or row.value > (old.value or 0.0)):
            folder.append(row)
            found = True
    return found
