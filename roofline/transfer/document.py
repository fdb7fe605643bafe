"""Write what the backtests found: ``backtest.md`` and its figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..silicon.package import tables_version
from .backtest import Backtest
from .calibration import Calibration
from .run_document import run_sections
from .score_tables import HEAD, figures, flat, paragraphs, scores_table
from .standard import StandardRun

FIGURE = "backtest.png"
# Rows of a figure; more only overlap.
_POINTS = 1500
_ABOUT = """
Every number is for a target that took no part: its own rows, and those of GPUs of its design, teach neither the
method's exponents nor the band. The form of the model and the anchors' settings were chosen on A100, L40S, H100,
H200 and RTX PRO 6000. One choice was made after a look at B200: a first version widened the bands by the factor
that left-out development GPUs asked for (1.4); it held 89 % of B200's rows at a width of 2.9, and plain conformal
bands took its place. A group is one kernel of one framework, version and precision; groups count once each, all of
them, those whose software changed included. *Median error* is the mean over groups of the group's median of
|predicted / measured - 1|, *p90* of its 90th percentile, *bias* the mean of the groups' median log ratio as a
fraction, *in band* the share of rows inside the 80 % band and *band* its high over its low end.
"""
_METHOD = """
A kernel's fixed time stays. The rest of its time goes with its roofs as far as it was near them on the source
(`efficiency ** exponent`), and with the clock and the number of SMs as far as it was not; sets that L2 holds are
served by L2, as the tables' harnesses run a case again and again. The roof is the 2-norm of matrix, memory,
exponential, vector and link time at the datasheets' rates. See `roofline/transfer/model.py`. Anchors are chosen by
clusters of the rows' features and correct each kernel by a Gaussian process (`roofline/transfer/anchors.py`).

What remains is mostly software: MoE kernels whose framework runs another binary under the same name, block-scaled
fp8 products that lost or gained between architectures, and collectives, whose latency no datasheet gives. Anchors
on the target remove most of it.
"""


def write_document(done: StandardRun, folder: Path) -> list[Path]:
    """Write ``backtest.md`` and ``backtest.png`` into a folder, and return their paths.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text, figure = folder / "backtest.md", folder / FIGURE
    _draw(done.backtests[0], figure)
    text.write_text("\n\n".join(_sections(done)) + "\n", encoding="utf-8")
    return [text, figure]


def _sections(done: StandardRun) -> list[str]:
    first = done.backtests[0]
    parts = [
        "# Backtest",
        "How far projections were off on GPUs that were measured. Written by `roofcast backtest --all --out docs` from "
        f"{tables_version()}.",
        flat(_ABOUT),
        "## In short",
        _summary(done.backtests),
        f"![Predicted against measured, {first.source} to {first.target}]({FIGURE})",
        f"Nothing of the target is known; bars are the bands. At most {_POINTS} rows are drawn, as many of each group.",
        "## How to read it",
        _reading(first.calibration),
    ]
    if done.from_run:
        parts += run_sections(done)
    for item in done.backtests:
        known = f"{item.anchors} anchors per kernel" if item.anchors else "nothing of the target known"
        parts += [f"## {item.source} to {item.target}, {known}", scores_table(item), _worst(item)]
    parts += ["## Noise floor", "The same kernel and shape in two software versions that follow each other, one GPU."]
    for gpu, lines in done.noise.items():
        rows = [f"| {gpu} | {line['operator_class']} | {figures(line)} |" for line in lines]
        parts.append("| gpu " + HEAD.replace("\n|", "\n|---|") + "\n" + "\n".join(rows))
    return parts


def _summary(backtests: Sequence[Backtest]) -> str:
    lines = [
        "| from | to | basis | anchors | roof alone | plain carry | roofcast | bias | in band | band |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for item in backtests:
        total = item.rows[-1]
        plain = [item.baselines[name][-1]["median_abs_error"] for name in ("datasheet roof", "plain carry")]
        lines.append(
            f"| {item.source} | {item.target} | {item.basis} | {item.anchors or ''} | {plain[0]:.1%} | "
            f"{plain[1]:.1%} | **{total['median_abs_error']:.1%}** | {total['bias']:+.1%} | {total['coverage']:.0%} | "
            f"{total['band_ratio']:.2f} |"
        )
    return "\n".join(lines)


def _reading(calibration: Calibration) -> str:
    exponents = ", ".join(f"{name} {value:g}" for name, value in sorted(calibration.parameters.exponent.items()))
    held = ", ".join(f"{basis} {share:.0%}" for basis, share in sorted(calibration.left_out.items()))
    pairs = "; ".join(f"{basis}: {', '.join(names)}" for basis, names in sorted(calibration.pairs.items()))
    return (
        f"{paragraphs(_METHOD)}\n\nOnto Blackwell, these pairs taught: {pairs}.\n\nExponents: {exponents}.\n\n"
        f"Where each development GPU's family was left out of the teaching, the bands held: {held or 'not tested'}."
    )


def _worst(item: Backtest) -> str:
    named = [f"`{line['group']}` {line['median_abs_error']:.0%} ({line['bias']:+.0%})" for line in item.worst[:5]]
    return f"Largest errors: {'; '.join(named)}."


def _draw(item: Backtest, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = item.matched
    groups = rows["group"].astype(str)
    each = max(1, _POINTS // max(1, groups.nunique()))
    shown = rows.assign(at=np.arange(len(rows))).sample(frac=1.0, random_state=0).groupby(groups).head(each)
    at = shown["at"].to_numpy()
    measured, found = rows["target_s"].to_numpy(), item.predicted
    figure = Figure(figsize=(7.2, 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    classes = rows["operator_class"].astype(str).to_numpy()
    for number, name in enumerate(sorted(set(classes))):
        own = at[classes[at] == name]
        middle = found.mid_s[own] * 1e6
        spread = np.stack([middle - found.low_s[own] * 1e6, found.high_s[own] * 1e6 - middle])
        axes.errorbar(
            measured[own] * 1e6, middle, yerr=spread, fmt="o", markersize=2.5, linewidth=0.4, alpha=0.6,
            color=f"C{number % 10}", label=name, markerfacecolor="none" if number >= 10 else None,
        )  # fmt: skip
    ends = [measured[at].min() * 1e6, measured[at].max() * 1e6]
    axes.plot(ends, ends, color="black", linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel=f"measured on {item.target}, us", ylabel="projected, us")
    axes.set_title(f"{item.source} to {item.target}: middle and 80 % band")
    axes.legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=110)
