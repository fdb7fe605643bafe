"""Scores as Markdown: the tables of ``backtest.md``."""

from __future__ import annotations

from typing import Any

from .backtest import Backtest
from .run_backtest import RunBacktest

HEAD = "| class | groups | rows | median error | p90 | bias | in band | band |\n|---|--:|--:|--:|--:|--:|--:|--:|"


def paragraphs(text: str) -> str:
    """Return text whose paragraphs are one line each."""
    return "\n\n".join(flat(part) for part in text.strip().split("\n\n"))


def flat(text: str) -> str:
    """Return text as one line."""
    return " ".join(text.split())


def figures(line: dict[str, Any]) -> str:
    """Return the cells of a score under `HEAD`, from the groups on."""
    coverage = "" if line["coverage"] is None else f"{line['coverage']:.0%}"
    ratio = "" if line["band_ratio"] is None else f"{line['band_ratio']:.2f}"
    return (
        f"{line['groups']} | {line['n']} | {line['median_abs_error']:.1%} | {line['p90_abs_error']:.0%} | "
        f"{line['bias']:+.1%} | {coverage} | {ratio}"
    )


def scores_table(item: Backtest | RunBacktest) -> str:
    """Return the lines of a backtest, its baselines last."""
    lines = [HEAD]
    lines += [f"| {line['operator_class']} | {figures(line)} |" for line in item.rows]
    lines += [f"| *all, {name}* | {figures(rows[-1])} |" for name, rows in item.baselines.items()]
    return "\n".join(lines)
