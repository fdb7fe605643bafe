"""The time of day and the host's name, as rows and run folders write them."""

from __future__ import annotations

import datetime
import socket


def utc_now() -> str:
    """Return the present time in UTC, ISO 8601 with milliseconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def host_name() -> str:
    """Return the host's name without its domain."""
    return socket.gethostname().split(".", 1)[0] or "unknown"


def run_name() -> str:
    """Return a run folder's default name, ``<time>_<host>``, which sorts by time and has no awkward characters."""
    return f"{datetime.datetime.now().astimezone():%Y-%m-%dT%H-%M-%S}_{host_name()}"
