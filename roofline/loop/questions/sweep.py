"""Sweep: every combination of the values of some fields, on some systems.

The grid is a product, and each phase depends on few of its axes: a phase is worked out once per combination of those
and then broadcast. A million points take seconds; what takes time is the number of different rollouts and trainings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..change import Setter, changed, field_value, problem
from ..load import LOAD_FIELDS, Load
from ..scenario import Scenario
from ..scenario_file import ScenarioError, load_scenario
from ..schedule import follow
from ..work import Array
from .quick import READS, Quick
from .what_if import parse_change

if TYPE_CHECKING:
    import pandas as pd

MOST_POINTS = 20_000_000
RESULTS = ("time_s", "gpu_hours", "kwh", "usd", "usd_per_million_tokens")
# Loads worked out in one call; more would only take memory.
_AT_ONCE = 200
_CHECKED = ("model", "lengths", "cluster", "rollout", "train", "schedule", "weight_sync")
_LENGTH = ("lengths", "rollout.turns", "rollout.observation_tokens")
_SEQUENCES = ("algorithm.prompts", "algorithm.rollouts")


@dataclass(frozen=True)
class Sweep:
    """Results of a grid at the middle of all inputs; not a number where a point is not possible or does not fit.

    ``results`` are arrays of the grid's shape: the systems first, then the axes in order.
    """

    scenario: str
    axes: Mapping[str, Sequence[Any]]
    results: Mapping[str, Array]

    @property
    def points(self) -> int:
        """Points of the grid."""
        return int(np.prod([len(values) for values in self.axes.values()]))

    @property
    def possible(self) -> int:
        """Points that have a result."""
        return int(np.isfinite(self.results["usd"]).sum())

    def to_frame(self) -> pd.DataFrame:
        """Return one row per point; axes are categories."""
        import pandas as pd

        shape = tuple(len(values) for values in self.axes.values())
        columns: dict[str, Any] = {}
        for position, (name, values) in enumerate(self.axes.items()):
            around = [1] * len(shape)
            around[position] = shape[position]
            codes = np.broadcast_to(np.arange(shape[position], dtype=np.int32).reshape(around), shape).reshape(-1)
            labels = [value if isinstance(value, int | float | str) else str(value) for value in values]
            columns[name] = pd.Categorical.from_codes(codes, categories=pd.Index(labels))  # type: ignore[arg-type]
        return pd.DataFrame(columns | {name: values.reshape(-1) for name, values in self.results.items()})

    def best(self, count: int = 10, by: str = "usd") -> list[dict[str, Any]]:
        """Return the points with the least of a result.

        Raises
        ------
        ScenarioError
            If there is no result of that name.
        """
        if by not in self.results:
            raise ScenarioError(f"there is no result {by!r}; choose {', '.join(RESULTS)}")
        flat = self.results[by].reshape(-1)
        count = min(count, int(np.isfinite(flat).sum()))
        chosen = np.argpartition(np.where(np.isnan(flat), np.inf, flat), max(count - 1, 0))[:count]
        rows = []
        for index in sorted(chosen, key=lambda i: flat[i]):
            at = np.unravel_index(index, self.results[by].shape)
            point = {name: values[i] for (name, values), i in zip(self.axes.items(), at, strict=True)}
            rows.append(point | {name: float(values[at]) for name, values in self.results.items()})
        return rows


def parse_axes(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return axes of ``cluster.gpus=16,32`` and ``lengths.response.mean=2000..8000..7`` (7 values evenly).

    Raises
    ------
    ScenarioError
        If one is not of this form, or a field stands twice.
    """
    axes: dict[str, list[Any]] = {}
    for text in texts:
        field, values = parse_change(text)
        made: list[Any] = []
        for value in values:
            made += _range(text, value) if isinstance(value, str) and value.count("..") == 2 else [value]
        if field in axes:
            raise ScenarioError(f"{field}: stands twice; give all its values in one axis")
        axes[field] = made
    return axes


def _range(text: str, value: str) -> list[Any]:
    number, *unit = value.split(" ", 1)
    try:
        low, high, count = number.split("..")
        steps = np.linspace(float(low), float(high), int(count))
    except ValueError:
        raise ScenarioError(f"{text}: a range is FROM..TO..COUNT, such as 2000..8000..7") from None
    whole = all(float(v).is_integer() for v in steps)
    shown = [int(v) if whole else float(v) for v in steps]
    return [f"{v} {unit[0]}" for v in shown] if unit else shown


def write_points(found: Sweep, path: str | Path) -> Path:
    """Write all points as Parquet or CSV.

    Raises
    ------
    ScenarioError
        If the ending is neither, or the file cannot be written.
    """
    path = Path(path)
    if path.suffix not in (".parquet", ".csv"):
        raise ScenarioError(f"{path}: end the name in .parquet or .csv")
    frame = found.to_frame()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.to_parquet(path, index=False) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path


def sweep(
    scenario: Scenario | str | Path,
    axes: Mapping[str, Sequence[Any]],
    systems: Sequence[str] | None = None,
    run: str | Path | None = None,
) -> Sweep:
    """Return time, GPU-hours, energy and money at every point of a grid.

    Parameters
    ----------
    axes
        Values by dotted field.

    Raises
    ------
    ScenarioError
        If a field or value is wrong, or the grid has more than `MOST_POINTS` points.
    """
    base = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    names = list(systems or base.systems)
    points = len(names) * int(np.prod([len(values) for values in axes.values()], dtype=float))
    if points > MOST_POINTS:
        raise ScenarioError(f"the grid has {points:,} points, more than {MOST_POINTS:,}; sweep it in parts")
    grid = _Grid(base, axes)
    made = [_on_system(grid, Quick(name, run)) for name in names]
    results = {key: np.stack([np.broadcast_to(one[key], grid.shape) for one in made]) for key in RESULTS}
    return Sweep(base.name, {"system": names, **axes}, results)


class _Grid:
    """Axes with their values checked once."""

    def __init__(self, base: Scenario, axes: Mapping[str, Sequence[Any]]) -> None:
        self.base, self.fields = base, list(axes)
        self.values = [[(field, Setter.of(base, field, v) or v) for v in values] for field, values in axes.items()]
        self.shape = tuple(len(values) for values in self.values)

    def table(self, reads: Sequence[str], work: Callable[[Scenario], float]) -> Array:
        """Return ``work`` of every combination of the axes among ``reads``; other axes have length 1."""
        here = [i for i, field in enumerate(self.fields) if any(_touches(field, name) for name in reads)]
        shape = [len(v) if i in here else 1 for i, v in enumerate(self.values)]
        flat = np.empty(int(np.prod(shape)))
        for index, chosen in enumerate(itertools.product(*(self.values[i] for i in here))):
            flat[index] = work(changed(self.base, dict(chosen), check=False))
        return flat.reshape(shape)

    def loaded(self, reads: Sequence[str], work: Callable[[Scenario, Load], Array]) -> Array:
        """As `table`, with all combinations of the fields of the load in one call (and `work` of their stack)."""
        here = [i for i, field in enumerate(self.fields) if any(_touches(field, name) for name in reads)]
        load = [i for i in here if any(_touches(self.fields[i], name) for name in LOAD_FIELDS)]
        other = [i for i in here if i not in load]
        sizes = [len(self.values[i]) for i in (*other, *load)]
        flat = np.empty((int(np.prod(sizes[: len(other)])), int(np.prod(sizes[len(other) :]))))
        loads = [
            changed(self.base, dict(one), check=False) for one in itertools.product(*(self.values[i] for i in load))
        ]
        blocks = [(at, Load.stack(loads[at : at + _AT_ONCE])) for at in range(0, len(loads), _AT_ONCE)]
        for index, chosen in enumerate(itertools.product(*(self.values[i] for i in other))):
            made = changed(self.base, dict(chosen), check=False)
            for start, stacked in blocks:
                done = work(made, stacked)
                flat[index, start : start + len(done)] = done
        ordered = flat.reshape(sizes).transpose(np.argsort([*other, *load]))
        return ordered.reshape([len(v) if i in here else 1 for i, v in enumerate(self.values)])


def _touches(field: str, read: str) -> bool:
    return field == read or field.startswith(f"{read}.") or read.startswith(f"{field}.")


def _on_system(grid: _Grid, quick: Quick) -> dict[str, Array]:
    alone, loaded = ("reward", "weight_sync"), ("rollout", "logprob", "train")
    seconds = {name: grid.table(READS[name], lambda s, n=name: quick.seconds(n, s)) for name in alone}
    seconds |= {name: grid.loaded(READS[name], lambda s, x, n=name: quick.seconds_at(n, s, x)) for name in loaded}
    gpus = grid.table(("cluster",), lambda s: s.cluster.gpus)
    generating = grid.table(("cluster",), lambda s: s.cluster.generating)
    training = grid.table(("cluster",), lambda s: s.cluster.training)
    overhead = grid.table(("parameters.step",), quick.overhead)
    with np.errstate(invalid="ignore"):
        time_s = np.zeros((1,) * len(grid.shape))
        for kind in ("sync", "one_step_off", "async"):
            chosen = grid.table(("schedule",), lambda s, k=kind: float(s.schedule == k))
            if chosen.any():
                of_kind = follow(kind, seconds, overhead, gpus=gpus, generating=generating, training=training).seconds
                time_s = np.where(chosen > 0, of_kind, time_s)
    possible = grid.table(_CHECKED, lambda s: float(problem(s) is None))
    time_s = np.where((possible > 0) & np.isfinite(time_s), time_s, np.nan)
    tokens = grid.table(_LENGTH, lambda s: s.mean_length) * grid.table(_SEQUENCES, lambda s: s.algorithm.sequences)
    hours = time_s * gpus / 3600.0
    usd = hours * grid.table(("prices.gpu", "prices.gpu_per_hour", "prices.capital"), quick.price)
    for fact, field in (("vcpu_hours", "prices.vcpu"), ("gib_hours", "prices.memory")):
        used = grid.table(READS["reward"], lambda s, f=fact: quick.phase("reward", s).facts[f])
        usd = usd + used * grid.table((field, "prices.own_sandboxes"), lambda s, f=field: _paid(s, f))
    return {
        "time_s": time_s,
        "gpu_hours": hours,
        "kwh": hours * grid.table(("parameters.power",), quick.watts) / 1000.0,
        "usd": usd,
        "usd_per_million_tokens": usd * 1e6 / tokens,
    }


def _paid(scenario: Scenario, field: str) -> float:
    return 0.0 if scenario.prices.own_sandboxes else float(field_value(scenario, field))
