"""Hold a run's projections against the measured tables of GPUs: the same operator, precision and shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...hwprofiles import load
from ...profiler.store import Run
from ..projection import project
from ..run_ceilings import ceilings_of_run
from ..silicon import has_tables, import_gpu, silicon_gpu
from ..silicon.gpus import SiliconGpu
from ..silicon.shapes import table_shape
from ..tables import KernelClass, class_of_operator
from ..targets import Target, make_target
from .backtest import Backtest, NothingInCommonError
from .classes import LEARNED_FROM, learned_class
from .score import score

if TYPE_CHECKING:
    import pandas as pd

    from ..projected import Projection

# What stands in for a family's own attained share of its peaks: that of the generation before.
_ATTAINED_AS = {"hopper": "a100", "blackwell": "hopper"}
# Designs that teach the classes where the shipped ones know the target's family.
_OTHERS = ("a100", "b200")
_SHAPE = ("operator", "precision", "workload")


@dataclass(frozen=True)
class RunBacktest:
    """A run of this machine projected onto a GPU that was measured.

    Parameters
    ----------
    source, target
        Title of the run's device, and short name of the GPU.
    rows
        One line per class of the tables and one for ``all``, see `score`. Every kernel that the tables have of a shape
        counts: a kernel of a framework is a group.
    baselines
        The same for ``datasheet roof`` and ``plain carry`` (roof over the efficiency measured here), without bands.
    taught_by
        GPUs whose kernels gave the classes; none of the target's family.
    matched
        One line per kernel and shape: what it is, ``target_s``, ``low_s``, ``mid_s``, ``high_s``.
    """

    source: str
    target: str
    basis: str
    rows: list[dict[str, Any]]
    baselines: dict[str, list[dict[str, Any]]]
    taught_by: tuple[str, ...]
    matched: pd.DataFrame

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "pair": f"{self.source}:{self.target}",
            "basis": self.basis,
            "rows": self.rows,
            "baselines": self.baselines,
            "taught_by": list(self.taught_by),
        }


def backtest_run(run: Run, target: str, *, operator: str | None = None) -> RunBacktest:
    """Project a run onto a GPU of the tables as if nothing of its family had been measured, and score it.

    Parameters
    ----------
    operator
        Only this operator of the run, such as ``attention.decode``.

    Raises
    ------
    UnknownGpuError, SiliconMissingError
        As `import_gpu`.
    NothingInCommonError
        If the tables hold no shape of the run.
    """
    gpu = silicon_gpu(target)
    device, teachers, classes = _unmeasured(gpu), *_classes(gpu)
    found: list[Projection] = []
    titles = []
    for ceilings in ceilings_of_run(run).values():
        wanted = [row for row in run.measurement_rows if operator in (None, row.operator)]
        made = project(wanted, ceilings, [device], classes=classes)
        titles += [ceilings.title] * bool(made)
        found += made
    matched = _matched(found, gpu)
    if matched.empty:
        remedy = "measure some with roofcast bench --suite silicon"
        raise NothingInCommonError(f"{run.path}: the tables of {gpu.name} hold no shape of this run; {remedy}")
    time = matched["target_s"].to_numpy()
    return RunBacktest(
        source=titles[0],
        target=gpu.name,
        basis=found[0].basis,
        rows=score(matched, time, *(matched[name].to_numpy() for name in ("mid_s", "low_s", "high_s"))),
        baselines={name: score(matched, time, matched[name].to_numpy()) for name in ("datasheet roof", "plain carry")},
        taught_by=teachers,
        matched=matched,
    )


def on_shapes(item: Backtest, shapes: pd.DataFrame) -> list[dict[str, Any]]:
    """Score another backtest on the shapes of a run alone, its anchors left out; no lines if it has none of them."""
    known = set(shapes[list(_SHAPE)].astype(str).itertuples(index=False, name=None))
    named = item.matched[list(_SHAPE)].astype(str).itertuples(index=False, name=None)
    kept = np.fromiter((name in known for name in named), dtype=bool) & ~item.predicted.anchored
    rows: pd.DataFrame = item.matched[kept]
    times = (getattr(item.predicted, name)[kept] for name in ("mid_s", "low_s", "high_s"))
    return score(rows, rows["target_s"].to_numpy(), *times) if len(rows) else []


def _classes(gpu: SiliconGpu) -> tuple[tuple[str, ...], Callable[[str], KernelClass]]:
    """Return the GPUs that teach, and what they do: the shipped classes unless they know the target's family."""
    if all(silicon_gpu(name).family != gpu.family for name in LEARNED_FROM):
        return LEARNED_FROM, class_of_operator
    others = tuple(n for n in _OTHERS if silicon_gpu(n).family != gpu.family and has_tables(n))
    return others, lambda operator: learned_class(class_of_operator(operator).name, others)


def _unmeasured(gpu: SiliconGpu) -> Target:
    return make_target(load(gpu.profile), attained_as=_ATTAINED_AS.get(gpu.family, "default"))


def _matched(found: list[Projection], gpu: SiliconGpu) -> pd.DataFrame:
    import pandas as pd

    lines = []
    for item in found:
        shape = table_shape(item.operator, item.workload)
        if shape is None:
            continue
        specified = max((term["work"] / term["specified"] for term in item.terms), default=0.0)
        lines.append({
            **{name: getattr(shape, name) for name in _SHAPE},
            "low_s": item.time_low_s, "mid_s": item.time_mid_s, "high_s": item.time_high_s,
            "datasheet roof": specified, "plain carry": item.roof_s / (item.source_efficiency or 1.0),
        })  # fmt: skip
    projected = pd.DataFrame(lines, columns=[*_SHAPE, "low_s", "mid_s", "high_s", "datasheet roof", "plain carry"])
    rows = import_gpu(gpu.name).rows
    rows = rows[rows["operator"].isin(projected["operator"]) & rows["workload"].isin(projected["workload"])]
    kept = rows[[*_SHAPE, "operator_class", "group", "time_s"]].astype(dict.fromkeys(_SHAPE, "str"))
    return kept.rename(columns={"time_s": "target_s"}).merge(projected, on=list(_SHAPE)).reset_index(drop=True)
