"""One rank: ``python -m roofcast.kernels.comm.rank FOLDER RANK RANKS``, told what to do over a pair of pipes.

Reads a line on standard input, does it, answers with a line on standard output: ``prepare ID KIND ELEMENTS PRECISION``,
``run ID``, ``write ID``, ``drop ID``, ``empty``. Ends when its input ends, whatever it is doing, so that no rank
outlives the process that began it. Not for users.
"""

from __future__ import annotations

import os
import queue
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def _follow_input(commands: queue.SimpleQueue[str], folder: Path) -> None:
    for line in sys.stdin:
        commands.put(line.strip())
    # Whoever began this is gone, and a collective under way waits for ranks that leave too.
    shutil.rmtree(folder, ignore_errors=True)  # every rank does, and some find it gone
    os._exit(0)


class _Job:
    """A collective on this rank's buffers."""

    def __init__(self, folder: Path, number: str, rank: int, ranks: int, kind: str, elements: int, bf16: bool) -> None:
        import torch
        import torch.distributed as dist

        self.folder, self.number, self.rank = folder, number, rank
        stored = np.load(folder / f"data{number}.npy", mmap_mode="r")[rank].copy()
        bits = torch.from_numpy(stored.view(np.int16)).view(torch.bfloat16) if bf16 else torch.from_numpy(stored)
        own = bits.clone()
        out = torch.empty(elements, dtype=own.dtype)
        self.out = out

        def all_reduce() -> None:
            out.copy_(own)
            dist.all_reduce(out)

        def broadcast() -> None:
            if rank == 0:
                out.copy_(own)
            dist.broadcast(out, 0)

        runs: dict[str, Callable[[], Any]] = {
            "all_reduce": all_reduce,
            "all_gather": lambda: dist.all_gather_into_tensor(out, own),
            "all_to_all": lambda: dist.all_to_all_single(out, own),
            "broadcast": broadcast,
        }
        self.run = runs[kind]

    def write(self) -> None:
        np.save(self.folder / f"out{self.number}_{self.rank}.npy", self.out.float().numpy())


def _serve(folder: Path, rank: int, ranks: int) -> None:
    commands: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_follow_input, args=(commands, folder), daemon=True).start()
    answers = os.dup(1)
    os.dup2(2, 1)  # a library that prints does not answer
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    os.write(answers, b"ready\n")
    jobs: dict[str, _Job] = {}
    while True:
        what, *rest = commands.get().split()
        if what == "run":
            jobs[rest[0]].run()
        elif what == "prepare":
            jobs[rest[0]] = _Job(folder, rest[0], rank, ranks, rest[1], int(rest[2]), rest[3] == "bf16")
        elif what == "write":
            jobs[rest[0]].write()
        elif what == "drop":
            jobs.pop(rest[0], None)
            (folder / f"out{rest[0]}_{rank}.npy").unlink(missing_ok=True)
        os.write(answers, b"done\n")


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
