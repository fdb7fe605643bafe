"""A run folder: manifest, append-only rows that survive a crash, and a lock against a second writer."""

from __future__ import annotations

import contextlib
import json
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from .machine import Machine, inspect_machine
from .schema import CeilingRow, Manifest, Measurement
from .store import MANIFEST_NAME, ROWS_NAME, StoreError, read_manifest, read_rows
from .times import host_name, utc_now
from .whole_files import whole_files

LOCK_NAME = "run.lock"


class RunFolderError(StoreError):
    """A run folder that cannot be written; the message names it and the remedy."""


class RunFolder:
    """A run folder open for writing; use it as a context manager.

    Every row is flushed and synced when `append` returns. The lock is the operating system's on an open file, so it
    ends with its process, however that dies.
    """

    def __init__(self, path: Path, manifest: Manifest, lock: TextIO) -> None:
        self.path = path
        self.manifest = manifest
        self._lock = lock
        self._rows = (path / ROWS_NAME).open("a", encoding="utf-8")

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        command: Sequence[str] = (),
        settings: dict[str, Any] | None = None,
        machine: Machine | None = None,
        resume: bool = False,
    ) -> RunFolder:
        """Make a run folder, or open one that exists to go on with it.

        Parameters
        ----------
        path
            The folder.
        command, settings, machine
            What the manifest records: command line, choices, and the machine (default: this one, inspected).
        resume
            Go on with the rows that are there; a folder that does not exist yet is made.

        Raises
        ------
        RunFolderError
            If the folder cannot be written, is in use, or holds rows and ``resume`` is not asked for.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(path)
        except OSError as error:
            raise _unwritable(path, error) from None
        try:
            if (path / ROWS_NAME).exists() and not resume:
                raise RunFolderError(f"{path} already holds a run; give --resume to go on with it, or another --out")
            if resume and (path / MANIFEST_NAME).exists():
                manifest = read_manifest(path)
                _cut_half_written_row(path / ROWS_NAME)
            else:
                manifest = _new_manifest(path, command, settings, machine or inspect_machine())
                _write_whole(path / MANIFEST_NAME, manifest.model_dump_json(indent=2) + "\n")
            return cls(path, manifest, lock)
        except OSError as error:
            lock.close()
            raise _unwritable(path, error) from None
        except BaseException:
            lock.close()
            raise

    def append(self, row: Measurement | CeilingRow) -> None:
        """Write a row and wait until it is on the disk."""
        self._rows.write(json.dumps(row.model_dump(mode="json"), allow_nan=False) + "\n")
        self._rows.flush()
        os.fsync(self._rows.fileno())

    def rows(self) -> list[Measurement | CeilingRow]:
        """Return the rows so far, the latest of each key."""
        return read_rows(self.path).latest()

    def finish(self) -> None:
        """Note in the manifest that the run is complete."""
        self.manifest = self.manifest.model_copy(update={"complete": True})
        _write_whole(self.path / MANIFEST_NAME, self.manifest.model_dump_json(indent=2) + "\n")

    def close(self) -> None:
        """Close the rows and give the lock back."""
        self._rows.close()
        self._lock.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _unwritable(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(f"{path}: cannot write a run folder here: {error.strerror}; choose another --out")


def _new_manifest(path: Path, command: Sequence[str], settings: dict[str, Any] | None, machine: Machine) -> Manifest:
    return Manifest(
        run_id=path.resolve().name,
        created_at=utc_now(),
        host=host_name(),
        machine=machine.as_dict(),
        software=machine.software,
        commit=machine.commit,
        command=list(command),
        settings=settings or {},
    )


def _take_lock(path: Path) -> TextIO:
    import fcntl

    file = (path / LOCK_NAME).open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip() or "unknown"
        file.close()
        raise RunFolderError(
            f"{path} is in use by another run (process {owner}); wait, or choose another --out"
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    _close_in_children(file)
    return file


def _close_in_children(file: TextIO) -> None:
    """Close the lock in processes that this one forks: one that outlives it must not hold the folder."""
    held = weakref.ref(file)

    def close() -> None:
        if (lock := held()) is not None:
            lock.close()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=close)


def _cut_half_written_row(path: Path) -> None:
    """Cut what a killed writer left after the last whole line, so that the next row starts on a line of its own."""
    with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)


def _write_whole(path: Path, text: str) -> None:
    with whole_files(path) as (beside,):
        beside.write_text(text, encoding="utf-8")
