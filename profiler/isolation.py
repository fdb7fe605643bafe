"""Sessions in worker processes: a crash, a hang or too much memory costs one row, never the run."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from typing import IO, Any

from .cases import Case, device_kind
from .failures import CaseFailureError
from .machine import inspect_machine
from .session import Opened, Round, Session
from .settings import Settings

_LOOK_EVERY_S = 0.2
_LAST_WORDS_BYTES = 2000
# Of the memory that is free when a case starts; the rest is the system's.
_MEMORY_SHARE = 0.9


def default_memory_limit() -> int:
    """Return 90 % of the memory that is available now, in bytes."""
    import psutil

    return int(_MEMORY_SHARE * min(psutil.virtual_memory().available, inspect_machine().usable_memory_bytes))


class WorkerSession:
    """A session whose work is done by a process of its own, within a time and a memory limit.

    The process starts with the first request and has a process group of its own, so that what it forks ends with it.
    """

    def __init__(self, case: Case, settings: Settings) -> None:
        self._case = case
        self._settings = settings
        self._left_s = settings.timeout_s
        self._memory_bytes = settings.memory_limit_bytes or default_memory_limit()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._words: IO[bytes] | None = None

    def open(self) -> Opened:
        """Start the process; there, prepare, check and warm up."""
        return self._ask("preparing and checking", "open")

    def sample(self, seconds: float, most: int) -> Round:
        """Take samples for some seconds: at least one, at most ``most``."""
        return self._ask("sampling", "sample", seconds, most)

    def burn(self, seconds: float) -> int:
        """Repeat the call for some seconds and return how often."""
        return self._ask("reading energy", "burn", seconds)

    def finish(self) -> float:
        """Check again and return the largest error in units of its tolerance."""
        return self._ask("checking after timing", "finish")

    def close(self) -> None:
        """End the process and everything it started."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            _kill_group(self._process)
            self._process = None
        if self._words is not None:
            self._words.close()
            self._words = None

    def _start(self) -> Connection:
        import socket

        ours, theirs = socket.socketpair()
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        # A GPU's driver reserves address space that such a limit would count; there, only what is used is watched.
        limit = self._memory_bytes if device_kind(self._case.device) == "cpu" else 0
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker", str(theirs.fileno()), str(limit)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._words,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._connection = Connection(ours.detach())
        self._connection.send((self._case.as_dict(), dataclasses.replace(self._settings, criteria=None)))
        return self._connection

    def _ask(self, doing: str, method: str, *arguments: object) -> Any:
        start = time.monotonic()
        try:
            connection = self._connection or self._start()
            connection.send((method, arguments))
            answer = self._answer(connection, doing, start + self._left_s)
        except (EOFError, ConnectionError, BrokenPipeError):
            raise self._died(doing) from None
        finally:
            self._left_s -= time.monotonic() - start
        if answer[0] == "failed":
            raise CaseFailureError(answer[1], answer[2])
        return answer[1]

    def _answer(self, connection: Connection, doing: str, deadline: float) -> tuple[Any, ...]:
        process = self._process
        assert process is not None
        while not wait_for([connection], timeout=_LOOK_EVERY_S):
            if process.poll() is not None and not connection.poll(_LOOK_EVERY_S):
                raise EOFError  # A child that it forked may keep the socket open.
            used = _memory_used(process.pid)
            if used > self._memory_bytes:
                raise CaseFailureError(
                    "out_of_memory",
                    f"used {used / 2**30:.2f} GiB while {doing}; the limit is {self._memory_bytes / 2**30:.2f} GiB",
                )
            if time.monotonic() > deadline:
                limit = self._settings.timeout_s
                raise CaseFailureError("timeout", f"did not end within {limit:g} s; stopped while {doing}")
        return connection.recv()

    def _died(self, doing: str) -> CaseFailureError:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        code = self._process.poll()
        if code == -signal.SIGKILL:
            return CaseFailureError("out_of_memory", f"killed while {doing}, most likely by the system for its memory")
        if code is None:
            how = "stopped answering"
        elif code < 0:
            how = f"died of {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code}"
        words = self._last_words()
        return CaseFailureError("crashed", f"the worker process {how} while {doing}{': ' + words if words else ''}")

    def _last_words(self) -> str:
        if self._words is None:
            return ""
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - _LAST_WORDS_BYTES))
        lines = self._words.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


def _memory_used(pid: int) -> int:
    """Return the resident bytes of a process and its children."""
    import psutil

    total = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += member.memory_info().rss
    return total


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def sessions_in_workers(cases: Sequence[Case], settings: Settings) -> list[Session]:
    """Return one session per case, each in a worker process."""
    return [WorkerSession(case, settings) for case in cases]
