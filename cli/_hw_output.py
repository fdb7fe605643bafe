"""Print hardware profiles, comparisons and checks for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ._output import console

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from ..hwprofiles import DeviceProfile, SystemProfile
    from ..hwprofiles.comparison import Row
    from ..hwprofiles.crosscheck import Audit
    from ..hwprofiles.summary import Summary
    from ..profiler.live_identity import Identity

    Profile = DeviceProfile | SystemProfile


def progress_bar() -> Progress:
    """Return a progress bar on standard error."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=console(stderr=True), transient=True)


def tight_table(columns: Sequence[tuple[str, str]]) -> Table:
    """Return a table without waste between columns: ``left``, ``right`` or ``wrap`` (left, the one that wraps)."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name, style in columns:
        if style == "wrap":
            made.add_column(name, overflow="fold")
        else:
            made.add_column(name, justify="right" if style == "right" else "left", no_wrap=True, overflow="fold")
    return made


def print_notices(profiles: Iterable[Profile]) -> None:
    """Print on standard error, once each, what the user should learn about names and cancelled products."""
    from rich.markup import escape

    for notice in dict.fromkeys(notice for profile in profiles for notice in profile.notices):
        console(stderr=True).print(f"note: {escape(notice)}", soft_wrap=True)


def print_notices_of(names: Iterable[str]) -> None:
    """Print the notices of profiles by name."""
    from ..hwprofiles import load

    print_notices(map(load, names))


def print_profile(profile: Profile) -> None:
    """Print every figure of a profile, and its sources."""
    from rich.markup import escape

    from ..hwprofiles import DeviceProfile
    from ..hwprofiles.display import LEGEND, written

    print_notices([profile])
    out = console()
    out.print(f"[bold]{escape(profile.title)}[/bold] ({profile.name}), {profile.kind}, {profile.status}")
    if isinstance(profile, DeviceProfile):
        words = (profile.vendor, profile.architecture, profile.chip, profile.compile_target)
        out.print(escape(", ".join(word for word in words if word)))
    else:
        parts = ((profile.gpu, profile.gpu_count), (profile.cpu, profile.cpu_count))
        out.print(escape(" and ".join(f"{count} x {part.name}" for part, count in parts if part)))
    for text in (profile.status_note, profile.note):
        if text:
            out.print(escape(text))
    if profile.aliases:
        out.print(escape(f"also: {', '.join(profile.aliases)}"))
    numbers = {key: str(n) for n, key in enumerate(profile.sources, start=1)}
    made = tight_table(
        [
            ("figure", "left"),
            ("value", "right"),
            ("confidence", "left"),
            ("date", "left"),
            ("from", "left"),
            ("note", "wrap"),
        ]
    )
    for path, figure in profile.fields.items():
        keys = getattr(figure, "sources", ())
        cited = ",".join(numbers[key] for key in keys if key in numbers)
        confidence, date = getattr(figure, "confidence", ""), getattr(figure, "date", "")
        made.add_row(path, written(figure), confidence, date, cited, escape(figure.note))
    out.print(made)
    for name, why in profile.disagreements.items():
        out.print(escape(f"{name} does not come out: {why}"))
    out.print(f"{LEGEND}. Peaks are dense and per device, links per direction.\n\nSources:")
    for key, source in profile.sources.items():
        out.print(escape(f"{numbers[key]:>3}  {source.title}, {source.date}{f', {source.url}' if source.url else ''}"))


def print_list(rows: Sequence[Summary]) -> None:
    """Print one line per profile, and the profiles that cannot be read."""
    names = (("name", "left"), ("kind", "left"), ("status", "left"))
    figures = (("memory", "right"), ("bandwidth", "right"), ("bf16 dense", "right"), ("power", "right"))
    made = tight_table([*names, *figures, ("figures", "right"), ("*", "right"), ("?", "right")])
    for r in rows:
        cells = (r.name, r.kind, r.status, r.memory, r.bandwidth, r.bf16, r.power)
        made.add_row(*cells, str(r.figures), str(r.ranges or ""), str(r.low_confidence or ""))
    out = console()
    out.print(made)
    out.print("* sources differ, ? low confidence: marks, and how many of the figures. More: roofcast hw show NAME")
    for row in rows:
        if row.problem:
            out.print(f"{row.name}: {row.problem}", markup=False)


def print_comparison(profiles: Sequence[Profile], rows: Sequence[Row], *, notes: bool) -> None:
    """Print profiles side by side, with the ratio to the first behind each of the others."""
    from ..hwprofiles.display import LEGEND

    print_notices(profiles)
    columns = [("", "left"), (profiles[0].name, "right")]
    for profile in profiles[1:]:
        columns += [(profile.name, "right"), ("", "right")]
    made = tight_table(columns)
    for row in rows:
        line = [f"{row.label}, {row.unit}" if row.unit else row.label, row.cells()[0]]
        for text, ratio in zip(row.cells()[1:], row.ratios[1:], strict=True):
            line += [text, "" if ratio is None else f"{ratio:.2f}x"]
        made.add_row(*line)
    out = console()
    out.print(made)
    out.print(f"x: ratio to {profiles[0].name}. {LEGEND}.\nPeaks are dense and per GPU, links per direction.")
    if any(row.label.startswith("TCO") for row in rows):
        out.print("TCO figures are of different series and dates: read --notes before dividing them.")
    if notes:
        _print_notes(profiles, rows)


def _print_notes(profiles: Sequence[Profile], rows: Sequence[Row]) -> None:
    from rich.markup import escape

    out = console()
    for row in rows:
        for profile, item in zip(profiles, row.items, strict=True):
            if item is not None and item.note:
                out.print(escape(f"{profile.name}, {row.label}: {item.note}"))


def print_audit(found: Audit) -> None:
    """Print what a check found."""
    from rich.markup import escape

    from ..hwprofiles.display import common_scale, number

    out = console()
    for problem in found.problems:
        out.print(escape(str(problem)), soft_wrap=True)
    for c in found.disagreements:
        factor, unit = common_scale(c.unit, [c.stated, c.computed])
        stated, computed = (number(value / factor) for value in (c.stated, c.computed))
        why = escape(c.explanation) or "[bold]not explained[/bold]: add the reason to the file's disagreements"
        worked_out = f"{escape(c.formula)} = {computed} ({c.difference:+.1%})"
        out.print(f"{c.profile} {c.name}: states {stated} {unit}, {worked_out}. {why}")
    out.print(
        f"{found.files} files, {found.figures} figures from {len(found.sources)} sources: "
        f"{found.low_confidence} figures of low confidence, {found.ranges} on which sources differ\n"
        f"{found.comparisons} cross-checks: {len(found.disagreements)} disagreements above 3 %, "
        f"{len(found.unexplained)} of them not explained\n{len(found.problems)} problems"
    )


def print_identities(found: Sequence[Identity]) -> None:
    """Print the devices of this machine, their profiles and what their state does to them."""
    from rich.markup import escape

    out = console()
    for item in found:
        name = item.found.profile.name if item.found.profile else "unknown"
        out.print(f"[bold]{escape(item.device)}[/bold]: {name}")
        out.print(escape(f"  seen: {item.found.seen}"))
        for word in item.found.words:
            out.print(escape(f"  {word}"))
