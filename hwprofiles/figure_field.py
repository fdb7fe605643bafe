"""Figures as pydantic fields: from the YAML form to a `Figure` of a given dimension."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from .errors import FieldError, nearest
from .figure import CONFIDENCES, Figure, Gap
from .units import DIMENSIONS, parse_quantity, parse_range

FIGURE_KEYS = ("value", "range", "source", "date", "confidence", "note")
_DATE = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")


def check_date(text: object) -> str:
    """Return a date such as ``2026``, ``2026-09`` or ``2026-09-15``.

    Raises
    ------
    FieldError
        If it is none.
    """
    if not isinstance(text, str) or not _DATE.fullmatch(text):
        raise FieldError(text, "is not a date; write 2026, 2026-09 or 2026-09-15")
    return text


def parse_figure(raw: Any, dimension_name: str) -> Figure | Gap:
    """Return the figure that an expanded YAML mapping holds.

    Raises
    ------
    FieldError
        If a part is missing, unknown or of the wrong kind; the error names the part.
    """
    dimension = DIMENSIONS[dimension_name]
    if isinstance(raw, list):
        raise FieldError(raw, f"is a list; a figure is one value such as {dimension.example}")
    if not isinstance(raw, dict):
        raw = {"value": raw}
    for key in raw:
        if key not in FIGURE_KEYS:
            raise FieldError(None, f"is not a part of a figure; {nearest(key, FIGURE_KEYS)}", (key,))
    note = _text(raw, "note")
    value = raw.get("value")
    if not isinstance(value, str) or not value.strip():
        raise FieldError(
            None, f"is empty; write {dimension.example}, or 'unknown'", ("value",) if "value" in raw else ()
        )
    if value in ("unknown", "none"):
        return Gap("none" if value == "none" else "unknown", note)
    number = parse_quantity(value, dimension)
    low = high = number
    if "range" in raw:
        try:
            low, high = parse_range(_text(raw, "range"), dimension)
        except FieldError as error:
            raise FieldError(raw["range"], error.message, ("range",)) from None
        if not low <= number <= high:
            raise FieldError(raw["range"], f"does not contain the value {value}; widen it", ("range",))
    return Figure(
        number, low, high, dimension.si, value.strip(), _sources(raw), _date(raw), _confidence(raw), note
    )  # fmt: skip


def _text(raw: dict[str, Any], key: str) -> str:
    value = raw.get(key, "")
    if not isinstance(value, str):
        raise FieldError(value, "must be text", (key,))
    return value


def _sources(raw: dict[str, Any]) -> tuple[str, ...]:
    source = raw.get("source")
    keys = [source] if isinstance(source, str) else source
    if not keys or not isinstance(keys, list) or not all(isinstance(key, str) and key for key in keys):
        raise FieldError(None, "has no source; add 'source: KEY' to it, to its section's defaults or to the file's")
    return tuple(keys)


def _date(raw: dict[str, Any]) -> str:
    if "date" not in raw:
        raise FieldError(None, "has no date; give its source a date, or add 'date: 2026-09'")
    try:
        return check_date(raw["date"])
    except FieldError as error:
        raise FieldError(raw["date"], error.message, ("date",)) from None


def _confidence(raw: dict[str, Any]) -> Any:
    value = raw.get("confidence")
    if value is None:
        raise FieldError(None, "has no confidence; add 'confidence: medium' to it or to the file's defaults")
    if value not in CONFIDENCES:
        raise FieldError(value, f"is not a confidence; write {', '.join(CONFIDENCES)}", ("confidence",))
    return value


def _json_schema(dimension_name: str) -> dict[str, Any]:
    dimension = DIMENSIONS[dimension_name]
    value = {
        "type": ["string", "number"],
        "description": f"{dimension.kind}, such as {dimension.example}; or 'unknown', or 'none'",
        "examples": [dimension.example.split(" or ")[0].split(",")[0]],
    }
    keys = {"type": ["string", "array"], "items": {"type": "string"}, "description": "keys of the file's sources"}
    return {
        "anyOf": [
            value,
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["value"],
                "properties": {
                    "value": value,
                    "range": {"type": "string", "description": "where sources differ: 19.2..22 TB/s"},
                    "source": keys,
                    "date": {"type": ["string", "integer"], "description": "2026, 2026-09 or 2026-09-15"},
                    "confidence": {"enum": list(CONFIDENCES)},
                    "note": {"type": "string"},
                },
            },
        ]
    }


def _field(dimension_name: str) -> Any:
    return Annotated[
        Figure | Gap,
        PlainValidator(lambda raw: parse_figure(raw, dimension_name)),
        WithJsonSchema(_json_schema(dimension_name)),
    ]


def named_dimension(name: str) -> str:
    """Return the dimension of a ceiling's name, such as ``dram.read``, ``matrix.int8`` or ``exp.fp32``.

    Raises
    ------
    FieldError
        If no ceiling has that form.
    """
    unit, _, what = name.partition(".")
    if unit in ("dram", "l1", "l2", "l3", "llc") and what in ("read", "write", "copy", "triad"):
        return "bandwidth"
    if unit == "link" and what:
        return "link"
    if unit in ("exp", "compare") and what:
        return "op_rate"
    if unit in ("vector", "matrix", "matrix_sparse", "matrix_emulated", "matrix_fp16_acc") and what:
        return "op_rate" if what.startswith("int") else "flop_rate"
    raise FieldError(
        None, "is not the name of a ceiling; write one such as dram.read, l2.read, matrix.bf16 or exp.fp32"
    )


def parse_named(raw: Any) -> dict[str, Figure | Gap]:
    """Return figures whose dimension follows from their ceiling's name.

    Raises
    ------
    FieldError
        As `parse_figure`, with the name as first part of the suffix.
    """
    if not isinstance(raw, dict):
        raise FieldError(raw, "is not a mapping; write a ceiling's name and its value, such as dram.read: 6.98 TB/s")
    made = {}
    for name, value in raw.items():
        try:
            made[name] = parse_figure(value, named_dimension(name))
        except FieldError as error:
            error.suffix = (name, *error.suffix)
            raise
    return made


# A type checker sees what a validated field holds; pydantic sees the parser of its dimension.
if TYPE_CHECKING:
    Bandwidth = Figure | Gap | None
    Link = Figure | Gap | None
    Size = Figure | Gap | None
    Width = Figure | Gap | None
    DataRate = Figure | Gap | None
    FlopRate = Figure | Gap | None
    OpRate = Figure | Gap | None
    FlopCount = Figure | Gap | None
    OpCount = Figure | Gap | None
    Clock = Figure | Gap | None
    Power = Figure | Gap | None
    PricePerHour = Figure | Gap | None
    PriceToBuy = Figure | Gap | None
    Latency = Figure | Gap | None
    Count = Figure | Gap | None
    Named = dict[str, Figure | Gap]
else:
    Bandwidth = _field("bandwidth")
    Link = _field("link")
    Size = _field("size")
    Width = _field("width")
    DataRate = _field("data_rate")
    FlopRate = _field("flop_rate")
    OpRate = _field("op_rate")
    FlopCount = _field("flop")
    OpCount = _field("op")
    Clock = _field("clock")
    Power = _field("power")
    PricePerHour = _field("price_per_hour")
    PriceToBuy = _field("price")
    Latency = _field("latency")
    Count = _field("count")
    Named = Annotated[
        dict[str, Figure | Gap],
        PlainValidator(parse_named),
        WithJsonSchema(
            {"type": "object", "description": "figures by ceiling name: dram.read, matrix.bf16, exp.fp32 ..."}
        ),
    ]
