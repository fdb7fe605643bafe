"""The standard backtests, and their outcome as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...profiler.store import Run
from .backtest import Backtest, NothingInCommonError, backtest, noise_floor
from .run_backtest import RunBacktest, backtest_run, on_shapes

# What the method is judged on: one generation ahead, with and without anchors, then within a generation, up and down.
STANDARD: tuple[tuple[str, str, int], ...] = (
    ("h200", "b200", 0),
    ("h200", "b200", 16),
    ("h200", "b200", 64),
    ("h200", "b300", 0),
    ("h200", "b300", 16),
    ("h200", "gb200", 0),
    ("h200", "gb200", 16),
    ("h200", "gb300", 0),
    ("h200", "gb300", 16),
    ("h100", "b200", 0),
    ("b200", "gb200", 0),
    ("b200", "b300", 0),
    ("gb200", "gb300", 0),
    ("h100", "h200", 0),
    ("l40s", "h200", 0),
    ("h200", "rtx-pro-6000", 0),
)


# Where a run of this machine is held against measured kernels.
RUN_TARGETS = ("h100", "h200", "b200")


class PairError(ValueError):
    """A pair that cannot be read; the message shows the form."""


@dataclass(frozen=True)
class StandardRun:
    """Several backtests and the noise floor of the GPUs they end on."""

    backtests: tuple[Backtest, ...]
    noise: Mapping[str, list[dict[str, Any]]]
    from_run: tuple[RunBacktest, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values; a single backtest's fields stand at the top."""
        found = [_as_dict(item) for item in self.backtests] + [item.as_dict() for item in self.from_run]
        top = found[0] if len(found) == 1 else {"backtests": found}
        return {**top, "noise_floor": dict(self.noise)}

    def on_shapes_of_run(self) -> list[tuple[Backtest, list[dict[str, Any]]]]:
        """Return the backtests onto the GPUs that the run was held against, scored on its shapes alone."""
        made = [
            (item, on_shapes(item, run.matched))
            for run in self.from_run
            for item in self.backtests
            if item.target == run.target
        ]
        return [(item, lines) for item, lines in made if lines]


def _as_dict(item: Backtest) -> dict[str, Any]:
    return {
        "pair": f"{item.source}:{item.target}",
        "basis": item.basis,
        "anchors": item.anchors,
        "rows": item.rows,
        "baselines": item.baselines,
        "largest_errors": item.worst,
        "taught_by": {basis: list(pairs) for basis, pairs in item.calibration.pairs.items()},
        "exponents": dict(item.calibration.parameters.exponent),
        "coverage_left_out": dict(item.calibration.left_out),
    }


def hold_run(run: Run, targets: Sequence[str] = RUN_TARGETS, *, operator: str | None = None) -> tuple[RunBacktest, ...]:
    """Hold a run against the measured kernels of GPUs, as `backtest_run`.

    Raises
    ------
    UnknownGpuError, SiliconMissingError, NothingInCommonError
        As `backtest_run`.
    """
    return tuple(backtest_run(run, target, operator=operator) for target in targets)


def split_pair(text: str) -> tuple[str, str]:
    """Return the two names of ``H200:B200``.

    Raises
    ------
    PairError
        If there are not two.
    """
    parts = [part.strip() for part in text.split(":")]
    if len(parts) != 2 or not all(parts):
        raise PairError(f"--pair {text!r}: give two measured GPUs as FROM:TO, such as H200:B200")
    return parts[0], parts[1]


def run_all(*, operator: str | None = None) -> StandardRun:
    """Run the standard backtests; pairs without a common kernel are left out.

    Raises
    ------
    NothingInCommonError
        If no pair has any.
    """
    done: list[Backtest] = []
    why = ""
    for source, target, anchors in STANDARD:
        try:
            done.append(backtest(source, target, operator=operator, anchors=anchors))
        except NothingInCommonError as error:
            why = str(error)
    if not done:
        raise NothingInCommonError(why)
    return StandardRun(tuple(done), {gpu: noise_floor(gpu) for gpu in ("h200", "b200")})
