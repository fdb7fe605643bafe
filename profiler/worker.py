"""A worker process: one case, served over a socket, so that nothing it does can end the run.

Started by `isolation` as ``python -m roofcast.profiler.worker FD``. What the case writes to its standard streams does
not touch the socket.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_SET_PARENT_DEATH_SIGNAL = 1


def serve(connection: Connection) -> None:
    """Answer requests until the other end closes.

    A request is ``(method, arguments)`` of a `session.Session`; an answer is ``("ok", value)`` or
    ``("failed", status, message)``.
    """
    from ..kernels import load_plugin
    from .cases import Case
    from .failures import as_failure
    from .inputs_shelf import InputsShelf
    from .session import LocalSession

    own = os.getpid()
    fields, settings = connection.recv()
    session: Any = None
    while True:
        try:
            method, arguments = connection.recv()
        except EOFError:
            return
        answer: tuple[Any, ...]
        try:
            if session is None:
                for plugin in settings.plugins:
                    load_plugin(Path(plugin))
                session = LocalSession(Case.from_dict(fields), settings, InputsShelf())
            answer = ("ok", getattr(session, method)(*arguments))
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: the case's, not the run's.
            failure = as_failure(error, "starting")
            answer = ("failed", failure.status, failure.message)
        if os.getpid() != own:
            os._exit(0)  # A child that the case forked has come back here; the parent answers.
        connection.send(answer)


def limit_memory(limit_bytes: int) -> None:
    """Let allocations fail that would take this process's data beyond the limit, where the system can."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


def _die_with_parent() -> None:
    """Ask the kernel to end this process when its parent dies, even by kill -9 (Linux only)."""
    with contextlib.suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


if __name__ == "__main__":
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.argv[2] != "0":
        limit_memory(int(sys.argv[2]))
    serve(Connection(int(sys.argv[1])))
