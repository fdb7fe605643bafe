"""The columns that every mapped table has, and how storage formats translate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# What a mapper adds to a table's own columns. Work is counted from the algorithm, as `kernels.contract.Cost` is.
WORK = ("flops", "vector_flops", "exponentials", "read_bytes", "write_bytes", "link_bytes")
TEXT = ("operator", "operator_class", "framework", "version", "kernel", "precision", "rate", "workload")
ROW = (*TEXT, *WORK, "launches", "time_s")

# Bytes of a stored number, scales of its blocks included: nvfp4 has one byte per 16, mxfp4 one per 32, int4 a bf16
# scale per 32.
BYTES: Mapping[str, float] = {
    "bfloat16": 2.0,
    "float16": 2.0,
    "half": 2.0,
    "int8": 1.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_block": 1.0 + 4 / 128 / 128,
    "nvfp4": 0.5625,
    "w4a16_mxfp4": 0.53125,
    "w4a8_mxfp4_mxfp8": 0.53125,
    "int4_wo": 0.5625,
}
# The rate that the products run at, and the bytes of an activation. Weights of 4 bits with 16-bit activations are
# widened before the product.
RATE: Mapping[str, str] = {
    "bfloat16": "matrix.bf16",
    "float16": "matrix.fp16",
    "half": "matrix.fp16",
    "fp8": "matrix.fp8",
    "fp8_block": "matrix.fp8",
    "nvfp4": "matrix.nvfp4",
    "w4a16_mxfp4": "matrix.bf16",
    "w4a8_mxfp4_mxfp8": "matrix.fp8",
    "int4_wo": "matrix.bf16",
}
ACTIVATION: Mapping[str, float] = {
    "bfloat16": 2.0,
    "float16": 2.0,
    "half": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0 + 4 / 128,
    "nvfp4": 0.5625,
    "w4a16_mxfp4": 2.0,
    "w4a8_mxfp4_mxfp8": 1.03125,
    "int4_wo": 2.0,
}
SHORT: Mapping[str, str] = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16"}


def numbers(table: pd.DataFrame, *names: str) -> list[pd.Series]:
    """Return columns as floats."""
    return [table[name].astype(float) for name in names]


def known(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the rows whose storage format has a known rate."""
    return table[table[column].isin(list(RATE))]


def short(formats: pd.Series) -> pd.Series:
    """Return roofcast's names of storage formats."""
    return formats.astype(str).replace(dict(SHORT))


def label(table: pd.DataFrame, names: Mapping[str, str]) -> pd.Series:
    """Return ``batch=8, context=4096``: roofcast's field names by the table's columns."""
    made: pd.Series | None = None
    for field, column in names.items():
        part = f"{field}=" + table[column].astype(str)
        made = part if made is None else made + ", " + part
    assert made is not None
    return made
