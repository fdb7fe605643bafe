"""Versions of what measures, and the commit of this code."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

_PACKAGES = ("roofcast", "numpy", "numba", "llvmlite", "torch", "triton", "pandas", "scipy")
_ROOT = Path(__file__).resolve().parents[1]


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = [("python", platform.python_version())]
    for name in _PACKAGES:
        try:
            found.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return tuple(found)


def software_versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that decide a time, without importing them."""
    return dict(_versions())


@cache
def code_commit(folder: Path = _ROOT) -> str:
    """Return the commit of a git checkout, with ``+dirty`` if tracked files have changes; "" if it is none."""
    if not (folder / ".git").exists():
        return ""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return ""
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+dirty" if changes else commit


def _git(folder: Path, *arguments: str) -> str | None:
    # Without optional locks a status leaves the index alone, so it cannot disturb another git at work.
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
