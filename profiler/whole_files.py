"""Write files so that a crash or a full disk leaves the old ones or the new ones, never a half."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_files(*paths: Path) -> Iterator[list[Path]]:
    """Yield a path beside each of ``paths`` to write to; when the block ends well, all of them take their places.

    If the block raises, what was written is removed and ``paths`` are as before.

    Raises
    ------
    OSError
        If a file cannot be synced or take its place, for instance because a folder stands there.
    """
    for path in paths:
        if path.is_dir():
            raise IsADirectoryError(21, "Is a directory", str(path))
    beside = [path.with_name(f".new-{path.name}") for path in paths]
    try:
        yield beside
        for written in beside:
            with written.open("rb") as file:
                os.fsync(file.fileno())
        for written, path in zip(beside, paths, strict=True):
            written.replace(path)
    finally:
        for written in beside:
            written.unlink(missing_ok=True)
