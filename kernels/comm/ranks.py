"""The processes of a collective: begun once per number of ranks, told together, waited for together.

What is timed is from the first rank's being told to the last one's answer, so that no byte can travel before the clock
starts or after it stops. Telling and answering alone takes `Ranks.empty_s`; it is part of every time.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from functools import cache
from pathlib import Path
from typing import IO

import numpy as np

from ..contract import Arrays, Inputs, Prepared
from .collective import Collective

_START_S, _ANSWER_S = 120.0, 60.0
_LOOPBACK = "lo" if sys.platform == "linux" else "lo0"


class RankError(RuntimeError):
    """A rank that ended or does not answer; the message gives what it last said."""


class Ranks:
    """Processes that have joined one group.

    Parameters
    ----------
    number
        How many.

    Raises
    ------
    RankError
        If one of them cannot start.
    """

    def __init__(self, number: int) -> None:
        self._jobs = itertools.count()
        self._dropped: list[str] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.ended = False
        self.folder = Path(tempfile.mkdtemp(prefix="roofcast-ranks-"))
        atexit.register(self.end)
        self._errors = [(self.folder / f"stderr{rank}").open("wb") for rank in range(number)]
        # The machine's own name need not resolve.
        environment = {"GLOO_SOCKET_IFNAME": _LOOPBACK, **os.environ}
        try:
            for rank in range(number):
                self.processes.append(self._begin(rank, number, environment))
            self._await(_START_S)
        except BaseException:
            self.end()
            raise

    def _begin(self, rank: int, number: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.rank", str(self.folder), str(rank), str(number)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors[rank], env=environment, bufsize=0,
            start_new_session=True,  # who kills this process's group leaves them to end by themselves and tidy up
        )  # fmt: skip

    def tell(self, command: str, wait_s: float = _ANSWER_S) -> None:
        """Give all ranks a command and wait until all have answered.

        Raises
        ------
        RankError
            If a rank ended or does not answer in time; all others are ended too.
        """
        if self.ended:
            raise RankError(f"the {len(self.processes)} ranks have been ended; prepare anew")
        while self._dropped:
            self._say(f"drop {self._dropped.pop()}", wait_s)
        self._say(command, wait_s)

    def _say(self, command: str, wait_s: float) -> None:
        line = command.encode() + b"\n"
        try:
            for process in self.processes:
                with contextlib.suppress(BrokenPipeError):  # its end is found while waiting
                    os.write(_pipe(process.stdin), line)
            self._await(wait_s)
        except BaseException:
            self.end()  # answers that nobody has read would be taken for the next command's
            raise

    def _await(self, wait_s: float) -> None:
        waiting = {_pipe(process.stdout): rank for rank, process in enumerate(self.processes)}
        until = time.monotonic() + wait_s
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self._fail(next(iter(waiting.values())), f"has not answered for {wait_s:g} s")
            for pipe in ready:
                if not os.read(pipe, 64).endswith(b"\n"):
                    self._fail(waiting[pipe], "has ended")
                del waiting[pipe]

    def _fail(self, rank: int, what: str) -> None:
        lines = (self.folder / f"stderr{rank}").read_text(errors="replace").strip().splitlines()
        self.end()
        raise RankError(
            f"rank {rank} of {len(self.processes)} {what}; it last said: {lines[-1] if lines else 'nothing'}"
        )

    def prepare(self, kind: str, inputs: Inputs) -> str:
        """Hand every rank its buffer and return the job's number."""
        w = inputs.workload
        assert isinstance(w, Collective)
        job = str(next(self._jobs))
        path = self.folder / f"data{job}.npy"
        np.save(path, inputs.arrays["data"])
        self.tell(f"prepare {job} {kind} {w.elements} {w.precision}")
        path.unlink()
        return job

    def results(self, job: str) -> Arrays:
        """Return ``out[ranks, ...]`` of the job's latest run."""
        self.tell(f"write {job}")
        return {"out": np.stack([np.load(self.folder / f"out{job}_{r}.npy") for r in range(len(self.processes))])}

    def drop(self, job: str) -> None:
        """Let the ranks forget a job, before the next command: the garbage collector may call in the midst of one."""
        self._dropped.append(job)

    def empty_s(self, times: int = 50) -> float:
        """Return the seconds of telling and answering alone, the median of several."""
        taken = []
        for _ in range(times):
            start = time.perf_counter()
            self.tell("empty")
            taken.append(time.perf_counter() - start)
        return float(np.median(taken))

    def end(self) -> None:
        """End the processes and remove their folder."""
        if self.ended:
            return
        self.ended = True
        atexit.unregister(self.end)
        for process in self.processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        for file in self._errors:
            file.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _pipe(stream: IO[bytes] | None) -> int:
    assert stream is not None
    return stream.fileno()


@cache
def _kept(number: int, _process: int) -> list[Ranks]:
    return []


def ranks_of(number: int) -> Ranks:
    """Return running processes, begun now if there are none of that number."""
    kept = _kept(number, os.getpid())
    if not kept or kept[0].ended:
        kept[:] = [Ranks(number)]
    return kept[0]


def prepare_collective(inputs: Inputs, kind: str) -> Prepared:
    """Bind a collective to its ranks; a run is done when all ranks have finished."""
    w = inputs.workload
    assert isinstance(w, Collective)
    ranks = ranks_of(w.ranks)
    job = ranks.prepare(kind, inputs)
    command = f"run {job}"

    def run() -> None:
        ranks.tell(command)

    weakref.finalize(run, ranks.drop, job).atexit = False
    return Prepared(run, lambda: ranks.results(job))
