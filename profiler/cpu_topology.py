"""The caches of a core and the kinds of core."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .host_text import count_cpus, read_text, sysctl


@dataclass(frozen=True)
class Cache:
    """One cache as a core sees it: its size in bytes and how many logical cores share it."""

    level: int
    kind: str
    size_bytes: int
    shared_by: int
    line_bytes: int = 64


@dataclass(frozen=True)
class CoreKind:
    """Cores of equal capability on a hybrid CPU, by their relative capacity or greatest clock."""

    name: str
    count: int


def caches(root: Path = Path("/")) -> tuple[Cache, ...]:
    """Return the caches of the first core, from the innermost outwards; instruction caches are left out."""
    found = []
    for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, size = read_text(folder / "type"), _size(read_text(folder / "size"))
        level, line = read_text(folder / "level"), read_text(folder / "coherency_line_size")
        if kind == "Instruction" or not level.isdigit() or not size:
            continue
        shared = count_cpus(read_text(folder / "shared_cpu_list")) or 1
        found.append(Cache(int(level), kind.lower() or "unified", size, shared, int(line) if line.isdigit() else 64))
    if not found:
        found = _caches_macos()
    return tuple(sorted(found, key=lambda cache: cache.level))


def _caches_macos() -> list[Cache]:
    found = []
    for level, key in ((1, "l1dcachesize"), (2, "l2cachesize"), (3, "l3cachesize")):
        size = sysctl(f"hw.perflevel0.{key}") or sysctl(f"hw.{key}")
        if size.isdigit() and int(size):
            shared = sysctl("hw.perflevel0.cpusperl2") if level == 2 else ""
            found.append(Cache(level, "data" if level == 1 else "unified", int(size), int(shared or 1)))
    return found


def core_kinds(root: Path = Path("/")) -> tuple[CoreKind, ...]:
    """Return the kinds of core of a hybrid CPU, fastest first; empty if all cores are alike."""
    performance = count_cpus(read_text(root / "sys/devices/cpu_core/cpus"))
    efficiency = count_cpus(read_text(root / "sys/devices/cpu_atom/cpus"))
    if performance and efficiency:
        return CoreKind("performance", performance), CoreKind("efficiency", efficiency)
    counts: dict[int, int] = {}
    for folder in (root / "sys/devices/system/cpu").glob("cpu[0-9]*"):
        capacity = read_text(folder / "cpu_capacity")
        if capacity.isdigit():
            counts[int(capacity)] = counts.get(int(capacity), 0) + 1
    if len(counts) < 2:
        return ()
    return tuple(CoreKind(f"capacity {capacity}", counts[capacity]) for capacity in sorted(counts, reverse=True))


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(match[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[match[2]] if match else 0
