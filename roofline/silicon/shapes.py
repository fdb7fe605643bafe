"""Say under which operator, precision and shape the measured tables hold a workload of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...kernels import make_workload

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class TableShape:
    """An operator, a precision and a workload as the columns of the tables name them."""

    operator: str
    precision: str
    workload: str


def table_shape(operator: str, workload: Fields) -> TableShape | None:
    """Return where the tables hold a workload, or None if it has no counterpart there.

    Two stand for the same work approximately: pages of keys and values are a contiguous cache in the tables, and
    experts drawn evenly are their ``balanced`` ones, with the tokens' scattering and gathering in the time there.

    Parameters
    ----------
    operator, workload
        As a measurement's row has them; fields that are left out have their defaults.

    Raises
    ------
    kernels.WorkloadError
        If the workload cannot exist.
    """
    found = _SHAPES.get(operator)
    return found(make_workload(operator, dict(workload)).as_dict()) if found else None


def _gemm(w: Fields) -> TableShape:
    return _made("linear.gemm", w["precision"], m=w["tokens"], n=w["out_features"], k=w["in_features"])


def _decode(w: Fields) -> TableShape | None:
    if w["lengths"] != "constant" or w.get("sinks") or w.get("query_tokens", 1) != 1:
        return None
    return _made("attention.decode", w["precision"], batch=w["batch"], context=w["context"], **_heads(w))


def _experts(w: Fields) -> TableShape | None:
    if w["skew"] != "uniform" or w.get("counts") or not w["gated"]:
        return None
    names = ("tokens", "hidden", "inter", "top_k", "experts")
    return _made("moe.experts", w["precision"], **{n: w[n] for n in names}, tp=1, distribution="balanced")


def _heads(w: Fields) -> dict[str, Any]:
    return {**{name: w[name] for name in ("q_heads", "kv_heads", "head_dim")}, "window": w.get("window", 0)}


def _made(operator: str, precision: str, **fields: Any) -> TableShape:
    return TableShape(operator, precision, ", ".join(f"{name}={value}" for name, value in fields.items()))


_SHAPES: Mapping[str, Callable[[Fields], TableShape | None]] = {
    "attention.decode": _decode,
    "linear.gemm": _gemm,
    "moe.expert_gemm": _experts,
}
