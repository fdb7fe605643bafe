"""Bring rows that an older roofcast wrote to the present schema, one version at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .schema import SCHEMA_VERSION

Record = dict[str, Any]
# MIGRATIONS[n] turns a record of version n into one of version n + 1.
MIGRATIONS: dict[int, Callable[[Record], Record]] = {
    # Version 2 added fields of ceilings that may be missing: the specified figure and the sweep of working sets.
    1: dict,
}


class MigrationError(ValueError):
    """A record of a version that this roofcast cannot read."""


def migrate(record: Record) -> Record:
    """Return a record in the present schema.

    Raises
    ------
    MigrationError
        If its version is newer than this roofcast, or too old for it.
    """
    if not isinstance(record, dict):
        raise MigrationError("a record is a JSON object")
    version = record.get("schema_version")
    if not isinstance(version, int):
        raise MigrationError(f"schema_version = {version!r}: give a whole number")
    if version > SCHEMA_VERSION:
        raise MigrationError(f"schema_version {version} was written by a newer roofcast; update roofcast to read it")
    while version < SCHEMA_VERSION:
        if version not in MIGRATIONS:
            raise MigrationError(f"schema_version {version} is too old for this roofcast; measure again")
        record = {**MIGRATIONS[version](record), "schema_version": version + 1}
        version += 1
    return record
