"""Measure into a run folder with a progress bar: first the ceilings, then the cases that are judged by them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ._output import console

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from ..profiler import Case, Measurement, RunFolder, Settings
    from ..profiler.run import Progress


@dataclass(frozen=True)
class Choices:
    """How a command measures; see ``roofcast bench --help``."""

    device: str = "cpu"
    resume: bool = False
    retry_failed: bool = False
    isolate: bool = False


def default_folder() -> Path:
    """Return ``runs/<time>_<host>``."""
    from ..profiler.times import host_name, utc_now

    return Path("runs") / f"{utc_now()[:19].replace(':', '-')}_{host_name()}"


@contextmanager
def open_folder(out: Path | None, settings: Settings, choices: Choices) -> Iterator[RunFolder]:
    """Create the run folder, or open it again with ``--resume``; after Ctrl-C say how to go on."""
    from ..profiler import RunFolder
    from ..profiler.devices import check_device

    check_device(choices.device)  # Before the folder is made, which would be in the way of the next try.
    command = ["roofcast", *sys.argv[1:]]
    path = out or default_folder()
    with RunFolder.create(path, command=command, settings=settings.as_dict(), resume=choices.resume) as folder:
        try:
            yield folder
        except KeyboardInterrupt:
            what = "what was measured is kept; go on with"
            console(stderr=True).print(f"interrupted: {what} --resume --out {path}", markup=False, soft_wrap=True)
            raise


def measure_ceilings(folder: RunFolder, device: str, *, full: bool = False) -> None:
    """Measure the device's ceilings that the folder lacks and append them as they come."""
    from ..profiler import CeilingRow
    from ..profiler.ceilings import ceiling_names, measure_ceilings

    done = {row.name for row in folder.rows() if isinstance(row, CeilingRow) and row.device == device}
    names = [name for name in ceiling_names(device, full=full) if name not in done]
    with _bar() as bar:
        task = bar.add_task("ceilings", total=len(names))
        for row in measure_ceilings(device, names=names, progress=lambda name: bar.update(task, description=name)):
            folder.append(row)
            bar.advance(task)


def measure_cases(folder: RunFolder, cases: Sequence[Case], settings: Settings, choices: Choices) -> list[Measurement]:
    """Measure the cases that the folder lacks, judged by its ceilings; doubtful ceilings are measured again."""
    from ..profiler import run_cases
    from ..roofline.second_look import second_look

    with _bar() as bar:
        task = bar.add_task("cases", total=len(cases))

        def show(progress: Progress) -> None:
            name = f"{progress.case.operator} {progress.case.implementation}" if progress.case else "cases"
            left = f"{progress.remaining_s:.0f} s left"
            bar.update(task, completed=progress.done, description=f"{name}: {progress.stage}, {left}")

        rows = run_cases(
            cases,
            folder,
            settings=settings,
            judge=_judge_by(folder),
            retry_failed=choices.retry_failed,
            isolate=choices.isolate,
            on_progress=show,
        )
        bar.update(task, description="ceilings that points were faster than, again")
        return second_look(folder, rows)


def measure_twice(folder: RunFolder, cases: Sequence[Case], settings: Settings, choices: Choices) -> None:
    """Measure the cases and, in turns with them, the same again into a folder beside: an A/A run."""
    from ..profiler.run import run_against_itself

    beside = folder.path.with_name(f"{folder.path.name}-aa")
    with open_folder(beside, settings, choices) as second:
        run_against_itself(cases, (folder, second), settings=settings, judge=_judge_by(folder), isolate=choices.isolate)
        second.finish()


def _judge_by(folder: RunFolder) -> Callable[[Measurement], Measurement]:
    """Return the judge by the ceilings that the folder holds."""
    from ..profiler import load_run
    from ..roofline.judge import judge
    from ..roofline.run_ceilings import ceilings_of_run

    return judge(ceilings_of_run(load_run(folder.path)))


def _bar() -> Bar:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=console(stderr=True), transient=True)
