"""Turn what went wrong with a case into a status and a sentence."""

from __future__ import annotations

import traceback

from ..kernels import UnknownNameError, UnsupportedError
from .devices import DeviceError
from .schema import Status

_LONGEST = 500
_OUT_OF_MEMORY_NAMES = ("OutOfMemoryError", "MemoryError")


class CaseFailureError(Exception):
    """A case that ended without a result; becomes a row with this status and message."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status: Status = status
        self.message = shorten(message)


def shorten(text: str) -> str:
    """Return a message on one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


def as_failure(error: BaseException, doing: str) -> CaseFailureError:
    """Return the failure that an exception means for a case.

    Parameters
    ----------
    error
        What was raised.
    doing
        What the engine was doing, such as ``preparing``.
    """
    if isinstance(error, CaseFailureError):
        return error
    name = type(error).__name__
    if isinstance(error, ImportError) and error.name:
        package = error.name.split(".", 1)[0]
        return CaseFailureError("unsupported", f"package {package!r} cannot be imported ({error}); install it")
    if isinstance(error, UnsupportedError | DeviceError | UnknownNameError):
        return CaseFailureError("unsupported", str(error))
    if name in _OUT_OF_MEMORY_NAMES or "out of memory" in str(error).lower():
        return CaseFailureError("out_of_memory", f"out of memory while {doing}: {error or name}")
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno})" if frames else ""
    return CaseFailureError("crashed", f"{name} while {doing}: {error}{where}")
