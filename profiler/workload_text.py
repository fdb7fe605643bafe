"""Read a workload as people write it on a command line: ``batch=4,context=8192,precision=bf16``."""

from __future__ import annotations

import json

from ..kernels import Workload, WorkloadError, get_operator, make_workload


def parse_workload(operator: str, text: str) -> Workload:
    """Return a workload of an operator from ``field=value,...``.

    Numbers, ``true`` and ``false`` are read as such, everything else is text.

    Raises
    ------
    UnknownNameError
        If the operator or a field does not exist; the message names the nearest.
    WorkloadError
        If a part is not ``field=value``, a field is missing, or the shape is impossible.
    """
    fields: dict[str, object] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not (name and equals and value):
            raise WorkloadError(f"workload {text!r}: {part.strip()!r} is not field=value")
        fields[name] = _value(value)
    try:
        return make_workload(operator, fields)
    except TypeError as error:
        known = ", ".join(get_operator(operator).workload_type.__dataclass_fields__)
        raise WorkloadError(f"workload {text!r} of {operator}: {error}; its fields are {known}") from None


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
