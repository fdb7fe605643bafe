"""Read what the kernel says about the machine, as text; absent files are empty, never an error."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path


def read_text(path: Path) -> str:
    """Return a small file's text without surrounding white space, or "" if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def count_cpus(text: str) -> int:
    """Return how many CPUs a kernel list such as ``0-3,8,10-11`` names; 0 if it is not one."""
    count = 0
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if not match:
            return 0
        count += int(match[2] or match[1]) - int(match[1]) + 1
    return count


def sysctl(name: str) -> str:
    """Return a macOS kernel value, or "" elsewhere."""
    if platform.system() != "Darwin":
        return ""
    try:
        done = subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
