"""Teach ``roofline/data/kernel_classes.yaml``: how kernels of a class stand to the roof, from measured tables."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..roofs import able_rates
from ..silicon import import_gpu, silicon_gpu
from ..silicon.package import tables_folder
from ..tables import KernelClass, load_table, make_class
from ..targets import load_target
from .terms import Array

if TYPE_CHECKING:
    import pandas as pd

    from ..ceilings import Ceilings

LEARNED_FROM = ("h100", "h200")
TESTED_ON = ("b200", "b300", "gb200", "gb300")
# Classes of the tables, by class of kernels.
_CLASSES = {
    "attention.decode": ("attention.decode",),
    "attention.prefill": ("attention.prefill",),
    "gemm.bf16": ("gemm.bf16",),
    "gemm.fp8": ("gemm.fp8", "gemm.fp8_block"),
    "mla": ("mla",),
    "moe.experts": ("moe.experts triton", "moe.experts other"),
    "streaming": ("streaming",),
}
# Operators that are a class of their own.
_OPERATORS = ("recurrent.scan", "recurrent.step")
# Least values of a workload's fields: below them stand shapes that nobody serves (contexts of two keys, experts cut
# over 32 GPUs), whose kernels are far from every roof.
_SERVED: Mapping[str, Mapping[str, int]] = {
    "attention.decode": {"context": 128},
    "attention.prefill": {"tokens": 128},
    "gemm.bf16": {"n": 256, "k": 256},
    "gemm.fp8": {"n": 256, "k": 256},
    "moe.experts": {"inter": 256},
}
_SELECTION = "sparse_attention/*/*/glm5_topk_module_perf.parquet"
# Nodes of the stretch stand in the middle of these sizes, seconds of roof.
_EDGES = (0.0, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 1.0)
_PERCENTILES = (0.1, 0.5, 0.9)
# No kernel is faster than its floor; a share of the fastest rows, which tolerates a few odd ones.
_FLOOR_SHARE, _FLOOR_QUANTILE = 0.9, 0.005
_LEAST_ROWS, _LEAST_IN_NODE, _LEAST_GROUPS = 50, 10, 2
# Elementwise sets of this size up to 1.5 x L2 stayed in the cache while they were timed.
_CACHED_FROM, _CACHED_TO = 1e6, 1.5
_WIDTH = 110


def learn_classes(gpus: Sequence[str] = LEARNED_FROM, tested: Sequence[str] = TESTED_ON) -> dict[str, dict[str, Any]]:
    """Return the entries ``classes`` of ``kernel_classes.yaml``.

    Parameters
    ----------
    gpus
        Short names of GPUs whose kernels teach.
    tested
        GPUs whose kernels are held against them, for ``coverage`` and ``median_error``; none may be left out.

    Raises
    ------
    UnknownGpuError, SiliconMissingError
        As `import_gpu`.
    """
    import pandas as pd

    taught = pd.concat([_rows(name) for name in gpus])
    left = pd.concat([_rows(name) for name in tested]) if tested else None
    shipped = load_table("kernel_classes")["classes"]
    made = {}
    for name in sorted(shipped):
        own = taught if name == "other" else taught[taught["class"] == name]
        test = left if name == "other" or left is None else left[left["class"] == name]
        made[name] = _entry(own, test, shipped[name])
    return made


def learned_class(name: str, gpus: tuple[str, ...]) -> KernelClass:
    """Return a class as other GPUs than the shipped ones teach it, for tests on those."""
    return make_class(name, _learned(gpus)[name], f"kernels of {', '.join(gpus)} in the tables")


@cache
def _learned(gpus: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    return learn_classes(gpus, ())


def write_classes(path: Path, gpus: Sequence[str] = LEARNED_FROM, tested: Sequence[str] = TESTED_ON) -> None:
    """Write ``kernel_classes.yaml`` with classes learned anew, as `learn_classes`; its text around them stays.

    Raises
    ------
    UnknownGpuError, SiliconMissingError
        As `import_gpu`.
    """
    text = Path(__file__).parents[1].joinpath("data", "kernel_classes.yaml").read_text(encoding="utf-8")
    head, rest = text.split("\nclasses:\n")
    tail = rest[rest.index("\n# Class by operator") :]
    path.write_text(f"{head}\nclasses:\n{''.join(_lines(learn_classes(gpus, tested)))}{tail}", encoding="utf-8")


def _lines(classes: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name, entry in classes.items():
        yield f"  {name}:\n    what: {_folded(entry['what'])}\n    floor_s: {entry['floor_s']:.3g}\n"
        for field in ("floor_launches", "groups", "points"):
            yield f"    {field}: {entry[field]}\n"
        for field in ("coverage", "median_error"):
            yield f"    {field}: {entry[field]:.2f}\n"
        yield "    source: silicon\n    nodes:\n"
        for node in entry["nodes"]:
            yield f"      - [{', '.join(f'{value:.3g}' for value in node)}]\n"


def _folded(text: str) -> str:
    return (
        text
        if len(text) < _WIDTH
        else "\n".join([">-", *textwrap.wrap(text, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)])
    )


def _entry(own: pd.DataFrame, test: pd.DataFrame | None, shipped: dict[str, Any]) -> dict[str, Any]:
    floor = float(np.median([_FLOOR_SHARE * g["time_s"].quantile(_FLOOR_QUANTILE) for _, g in own.groupby("key")]))
    nodes = list(_nodes(own, floor))
    entry = {
        "what": " ".join(shipped["what"].split()),
        "floor_s": floor,
        "floor_launches": shipped["floor_launches"],
        "groups": own["key"].nunique(),
        "points": len(own),
        "nodes": nodes,
        "coverage": float("nan"),
        "median_error": float("nan"),
    }
    if test is not None:
        low, mid, high = _predict(floor, np.array(nodes), test["roof_s"].to_numpy())
        time, weights = test["time_s"].to_numpy(), _weights(test)
        entry["coverage"] = float(np.average((time >= low) & (time <= high), weights=weights))
        entry["median_error"] = float(np.expm1(_quantiles(np.abs(np.log(time / mid)), weights, (0.5,))[0]))
    return entry


def _nodes(rows: pd.DataFrame, floor: float) -> Iterator[list[float]]:
    for least, most in pairwise(_EDGES):
        own = rows[(rows["roof_s"] >= least) & (rows["roof_s"] < most)]
        own = own[own.groupby("key")["time_s"].transform("size") >= _LEAST_IN_NODE]
        if own["key"].nunique() < _LEAST_GROUPS:
            continue
        weights, roof = _weights(own), own["roof_s"].to_numpy()
        stretch = np.log(own["time_s"].to_numpy() / (floor + roof))
        at = _quantiles(np.log(roof), weights, (0.5,))
        yield [float(v) for v in np.exp([*at, *_quantiles(stretch, weights, _PERCENTILES)])]


def _predict(floor: float, nodes: Array, roof: Array) -> tuple[Array, ...]:
    at, logs = np.log(nodes[:, 0]), np.log(nodes[:, 1:])
    return tuple((floor + roof) * np.exp(np.interp(np.log(roof), at, logs[:, i])) for i in range(3))


def _weights(rows: pd.DataFrame) -> Array:
    """Every group counts the same."""
    return 1.0 / rows.groupby("key")["time_s"].transform("size").to_numpy(float)


def _quantiles(values: Array, weights: Array, shares: Sequence[float]) -> list[float]:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return [float(values[order][np.searchsorted(total / total[-1], share)]) for share in shares]


def classified_rows(name: str) -> pd.DataFrame:
    """Return a GPU's rows of shapes that models are served with, and ``class``, their class of kernels."""
    rows = import_gpu(name).rows
    by_class = {own: kind for kind, several in _CLASSES.items() for own in several}
    kind = rows["operator_class"].astype(str).map(by_class)
    kind = kind.where(~rows["operator"].isin(_OPERATORS), rows["operator"].astype(str))
    rows = rows.assign(**{"class": kind}).dropna(subset=["class"])
    # Finding a scale is timed as a difference of two kernels; packed 4-bit weights have rates of their own; a
    # module is several operators.
    odd = rows["operator"].isin(["quantize.find_scale"]) | rows["precision"].astype(str).str.startswith("w4")
    rows = rows[~odd]
    windowed = rows["workload"].astype(str).str.contains(r"window=[1-9]")
    rows = rows[~windowed | ~rows["class"].str.startswith("attention")]
    rows = rows[~rows["operator"].astype(str).str.endswith("_module")]
    return rows[_served(rows)]


def attained_roof(rows: pd.DataFrame, attained: Ceilings) -> Array:
    """Return the least seconds of rows on their largest resource, at what the best kernels of a device attain."""
    rates = {str(rate): attained.best(able_rates(str(rate))) for rate in rows["rate"].unique()}
    known = rows["rate"].astype(str).map({rate: found.value for rate, found in rates.items() if found}).to_numpy(float)
    moved = rows["read_bytes"].to_numpy(float) + rows["write_bytes"].to_numpy(float)
    exponentials = rows["exponentials"].to_numpy(float) / attained["exp.fp32"].value
    terms = [rows["flops"].to_numpy(float) / known, moved / attained["dram.read"].value, exponentials]
    return np.maximum.reduce(terms)


def _rows(name: str) -> pd.DataFrame:
    """A GPU's rows with class, group and roof at what its best kernels attain."""
    import pandas as pd

    gpu = silicon_gpu(name)
    rows = classified_rows(name)
    target = load_target(gpu.profile)
    attained = target.attained["mid"]
    made = pd.DataFrame({
        "class": rows["class"].to_numpy(), "key": name + " | " + rows["group"].astype(str).to_numpy(),
        "time_s": rows["time_s"].to_numpy(float), "roof_s": attained_roof(rows, attained),
        "moved": rows["read_bytes"].to_numpy(float) + rows["write_bytes"].to_numpy(float),
    })  # fmt: skip
    made = pd.concat([made, *_selections(name, gpu.folder, attained["dram.read"].value)], ignore_index=True)
    l2 = target.specified.capacities.get("l2", 0.0)
    held = (made["class"] == "streaming") & made["moved"].between(_CACHED_FROM, _CACHED_TO * l2)
    made = made[~held & (made["time_s"] > 0) & (made["roof_s"] > 0)]
    return made[made.groupby("key")["time_s"].transform("size") >= _LEAST_ROWS]


def _served(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Whether a row's shape is one that models are served with; of experts, the part on one GPU counts."""
    kept = np.ones(len(rows), dtype=bool)
    kinds, texts = rows["class"].to_numpy(), rows["workload"].astype(str)
    for kind, least in _SERVED.items():
        own = np.flatnonzero(kinds == kind)
        shards = texts.iloc[own].str.extract(r"\btp=(\d+)", expand=False).fillna("1").astype(int)
        for field, value in least.items():
            found = texts.iloc[own].str.extract(rf"\b{field}=(\d+)", expand=False).astype(int)
            kept[own] &= (found // shards >= value).to_numpy()
    return kept


def _selections(name: str, folder: str, bandwidth: float) -> Iterator[pd.DataFrame]:
    """Top-k over the scores of all keys, fp32, read once. Part of a module that is not mapped as an operator."""
    import pandas as pd

    root = tables_folder() / folder
    for file in sorted(root.glob(_SELECTION)):
        table = pd.read_parquet(file)
        moved = 4.0 * table["batch_size"] * table["isl"] * (table["step"] + table["isl"])
        key = name + " | " + str(file.parent.relative_to(root)) + " | " + table["kernel_source"].astype(str)
        yield pd.DataFrame({
            "class": "selection", "key": key, "time_s": table["latency"].astype(float) * 1e-3,
            "roof_s": moved / bandwidth, "moved": moved,
        })  # fmt: skip
