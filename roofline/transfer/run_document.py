"""The part of ``backtest.md`` on this machine's run: CPU to GPU, and what narrows the band."""

from __future__ import annotations

from .score_tables import HEAD, figures, flat, scores_table
from .standard import StandardRun

_ABOUT = """
A run of a CPU (`roofcast bench --suite silicon`) projected onto GPUs whose tables hold the same operators, precisions
and shapes, as if no GPU of their design had been measured: classes of kernels and attained shares of the peaks come
from other designs. Every framework's kernel of a shape counts, so a class's band has to span them all; a CPU says
little of how well a kernel of a GPU is written, so its band is wide.
"""
_NARROWER = """
The same shapes from another source, and with measurements on the target: what to do when this band is too wide.
`roofcast project --from silicon:h200 --to b200` starts from the tables of a real GPU, `--anchor FILE` adds times of the
target.
"""


def run_sections(done: StandardRun) -> list[str]:
    """Return the sections, Markdown."""
    parts = ["## From a CPU", flat(_ABOUT)]
    for item in done.from_run:
        parts += [f"### {item.source} to {item.target}", f"Taught by {', '.join(item.taught_by)}.", scores_table(item)]
    others = [
        f"| {item.source} to {item.target}, {item.anchors or 'no'} anchors | {figures(lines[-1])} |"
        for item, lines in done.on_shapes_of_run()
    ]
    own = [f"| {item.source} to {item.target} | {figures(item.rows[-1])} |" for item in done.from_run]
    table = "\n".join([HEAD.replace("class", "from, to", 1), *own, *others])
    return [*parts, "### What narrows it", flat(_NARROWER), table]
