"""Colours, markers and number formats that all figures share, and how a figure is saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..profiler.store import StoreError
from ..profiler.whole_files import whole_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito, "Color universal design" (2008): distinguishable with every common colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D00", "#444444")
INK, FAINT, REFUSED = "#222222", "#8A8A8A", "#B00020"
MARKERS = {"numba": "o", "torch": "s", "triton": "^", "user": "D"}

RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
    "svg.hashsalt": "roofcast",
    "savefig.dpi": 200,
}


def colour_of(name: str, among: Iterable[str]) -> str:
    """Return a name's colour: the same for the same set of names."""
    names = sorted(set(among))
    return COLOURS[names.index(name) % len(COLOURS)]


def si(value: float, unit: str) -> str:
    """Return a number with three digits and an SI prefix, ``51.3 GB/s``."""
    short = unit.replace("bytes", "B")
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{short}"
    return f"{value:.3g} {short}"


def duration(value: float) -> str:
    """Return seconds in the unit people read them in."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Move positions apart until neighbours are at least ``gap`` from each other, keeping order and centre."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    placed: list[list[int]] = []

    def centre(group: list[int]) -> float:
        return sum(positions[i] for i in group) / len(group)

    for index in order:
        placed.append([index])
        while len(placed) > 1:
            lower, upper = placed[-2], placed[-1]
            room = gap * (len(lower) + len(upper)) / 2
            if centre(upper) - centre(lower) >= room:
                break
            placed[-2:] = [lower + upper]
    out = list(positions)
    for group in placed:
        start = centre(group) - gap * (len(group) - 1) / 2
        for place, index in enumerate(group):
            out[index] = start + gap * place
    return out


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG and return their paths.

    Raises
    ------
    StoreError
        If the folder cannot be written.
    """
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole_files(*paths) as beside:
            for path in beside:
                date: dict[str, Any] = {"metadata": {"Date": None}} if path.suffix == ".svg" else {}
                figure.savefig(path, bbox_inches="tight", **date)
    except OSError as error:
        raise StoreError(f"{folder}: cannot write figures here: {error.strerror or error}") from None
    return paths
