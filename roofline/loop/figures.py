"""Figures of the loop cost: stacked phases, tornado, curves over a field, break-even prices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...profiler.store import StoreError
from ..figure_style import COLOURS, FAINT, INK, RC
from .cost import LoopCost
from .schedule import PHASES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STACK = (*PHASES, "overhead")
_SHOWN_INPUTS = 14


@contextmanager
def _drawing(path: str | Path, size: tuple[float, float], columns: int = 1) -> Iterator[list[Axes]]:
    """Yield axes and write what was drawn to the file; its ending names the format."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(RC):
        figure = Figure(figsize=size, layout="constrained")
        yield list(figure.subplots(1, columns, squeeze=False)[0])
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            dated: dict[str, Any] = {"metadata": {"Date": None}} if Path(path).suffix == ".svg" else {}
            figure.savefig(path, **dated)
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{path}: cannot write a figure here ({error}); end the name in .png, .svg or .pdf"
            ) from None


def phase_bars(cost: LoopCost, path: str | Path) -> Path:
    """Draw GPU-hours and dollars of each system, stacked by phase, with the step's band.

    Phases are stacked by what they hold of the cluster, so that the stack is the step whatever the schedule.
    """
    systems = list(dict.fromkeys(row["system"] for row in cost.rows))
    by = {(row["system"], row["phase"]): row for row in cost.rows}
    with _drawing(path, (9.0, 1.2 + 0.55 * max(len(systems), 2)), columns=2) as axes:
        for ax, (stem, label) in zip(axes, (("gpu_hours", "GPU-hours per step"), ("usd", "USD per step")), strict=True):
            for y, system in enumerate(systems):
                left = 0.0
                for phase, colour in zip(_STACK, COLOURS, strict=False):
                    width = by[system, phase][f"{stem}_mid"]
                    ax.barh(y, width, left=left, color=colour, height=0.6, label=phase if y == 0 else None)
                    left += width
                step = by[system, "step"]
                ends = [[step[f"{stem}_mid"] - step[f"{stem}_low"]], [step[f"{stem}_high"] - step[f"{stem}_mid"]]]
                ax.errorbar([step[f"{stem}_mid"]], [y], xerr=ends, color=INK, capsize=3, linewidth=1)
            ax.set_yticks(range(len(systems)), systems)
            ax.invert_yaxis()
            ax.set_xlabel(f"{label}, bars of the middle, 80 % band")
            ax.set_xlim(left=0)
        axes[1].set_yticks([])
        axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes[0].set_title(cost.scenario.title or cost.scenario.name, loc="left")
    return Path(path)


def tornado(result: dict[str, Any], path: str | Path) -> Path:
    """Draw what each input does to the result of `questions.sensitivity`, the widest on top."""
    name, mid = result["result"], result["mid"]
    shown = result["inputs"][:_SHOWN_INPUTS]
    with _drawing(path, (8.0, 1.2 + 0.3 * max(len(shown), 3))) as (ax,):
        for y, row in enumerate(shown):
            for end, colour in (("low", COLOURS[0]), ("high", COLOURS[1])):
                value = row[f"{name}_at_{end}"]
                ax.barh(y, value - mid, left=mid, color=colour, height=0.6, label=f"input {end}" if y == 0 else None)
        ax.axvline(mid, color=INK, linewidth=0.8)
        ax.set_yticks(range(len(shown)), [row["input"] for row in shown])
        ax.invert_yaxis()
        unit = "USD" if name == "usd" else "seconds"
        ax.set_xlabel(f"{unit} of a step with one input at an end of its range ({result['system']}, middle {mid:.4g})")
        ax.set_title(result["scenario"], loc="left")
        ax.legend(loc="lower right")
    return Path(path)


def curves(rows: Sequence[dict[str, Any]], path: str | Path) -> Path:
    """Draw step time and dollars over the values of `questions.what_if`, one line with a band per system."""
    field = str(rows[0]["field"]) if rows else ""
    labels = list(dict.fromkeys(_label(row["value"]) for row in rows))
    numeric = all(isinstance(row["value"], int | float) for row in rows)
    place: Callable[[Any], float] = float if numeric else (lambda v: labels.index(_label(v)))
    with _drawing(path, (9.0, 3.4), columns=2) as axes:
        for ax, (stem, unit, label) in zip(axes, (("time", "_s", "step, s"), ("usd", "", "USD per step")), strict=True):
            for colour, system in zip(COLOURS, dict.fromkeys(row["system"] for row in rows), strict=False):
                of = [row for row in rows if row["system"] == system and "problem" not in row]
                x = [place(row["value"]) for row in of]
                low, mid, high = ([row[f"{stem}_{end}{unit}"] for row in of] for end in ("low", "mid", "high"))
                ax.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
                ax.plot(x, mid, color=colour, marker="o", markersize=4, label=system)
            if not numeric:
                ax.set_xticks(range(len(labels)), labels)
            ax.set_xlabel(field)
            ax.set_ylabel(f"{label}, 80 % band")
            ax.set_ylim(bottom=0)
        axes[0].legend()
    return Path(path)


def _label(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def break_even_prices(rows: Sequence[dict[str, Any]], path: str | Path) -> Path:
    """Draw break-even prices with their band and the price that is asked, one line per other system."""
    shown = [row for row in rows if "problem" not in row]
    with _drawing(path, (7.0, 1.4 + 0.4 * max(len(shown), 2))) as (ax,):
        for y, row in enumerate(shown):
            p = row["break_even_usd_per_gpu_hour"]
            ax.errorbar([p["mid"]], [y], xerr=[[p["mid"] - p["low"]], [p["high"] - p["mid"]]], color=COLOURS[0],
                        marker="o", capsize=3)  # fmt: skip
        if shown:
            asked = shown[0]["price_usd_per_gpu_hour"]
            ax.axvline(asked["mid"], color=COLOURS[1], linewidth=1, label=f"price {asked['mid']:.3g} USD")
            ax.legend()
        ax.set_yticks(range(len(shown)), [f"against {row['against']}" for row in shown])
        ax.set_ylim(-0.6, max(len(shown), 1) - 0.4)
        ax.set_xlabel(f"USD per GPU-hour of {rows[0]['system'] if rows else ''} below which it is cheaper, 80 % band")
        ax.grid(axis="x", color=FAINT, alpha=0.3)
    return Path(path)


def counts(result: dict[str, Any], path: str | Path) -> Path:
    """Draw step time against dollars of the best plan of each GPU count (`questions.plan`)."""
    with _drawing(path, (6.0, 4.0)) as (ax,):
        choices = result["by_count"]
        ax.plot([c["time_s"] for c in choices], [c["usd"] for c in choices], color=FAINT, linewidth=0.8)
        for c in choices:
            chosen = result["best"] is not None and c == result["best"]
            ax.plot([c["time_s"]], [c["usd"]], "o", color=COLOURS[1] if chosen else COLOURS[0])
            ax.annotate(f"{c['gpus']}", (c["time_s"], c["usd"]), xytext=(4, 4), textcoords="offset points")
        if result["deadline_s"]:
            ax.axvline(result["deadline_s"], color=INK, linestyle="--", linewidth=0.8)
        ax.set_xlabel("step, s")
        ax.set_ylabel("USD per step")
        ax.set_title(f"Best plan of each number of GPUs on {result['system']}", loc="left")
    return Path(path)
