"""Give every figure of a file its own provenance, and lay one file over another.

A file states source, date and confidence once where it can: in ``defaults`` of the file or of a section. Before
anything is merged each figure takes them over, so that a figure keeps its own source whatever it is merged into.
"""

from __future__ import annotations

from typing import Any

from .errors import Problem, ProfileError, nearest
from .figure import Figure
from .yaml_tree import Tree

FIGURE_SECTIONS = ("compute", "memory", "per_sm", "links", "power", "prices", "anchors", "totals")
TEXT_FIELDS = ("kind", "simd")
_PROVENANCE = ("source", "date", "confidence")
_PARTS = {"value", "range", *_PROVENANCE, "note"}


def is_figure(value: Any) -> bool:
    """Whether a value in a figure section is a figure in YAML form and not a section of its own."""
    return not isinstance(value, dict) or bool(value.keys() & _PARTS)


def expand(tree: Tree) -> None:
    """Write source, date and confidence into every figure of a file; remove ``defaults``.

    Raises
    ------
    ProfileError
        If a figure cites a source that the file does not list.
    """
    data = tree.data
    sources = data.get("sources")
    sources = sources if isinstance(sources, dict) else {}
    problems: list[Problem] = []
    defaults = _defaults(data.pop("defaults", None), tree, ("defaults",), problems)
    places = [(name,) for name in FIGURE_SECTIONS]
    for part in ("gpu", "cpu"):
        if isinstance(data.get(part), dict) and isinstance(data[part].get("override"), dict):
            places += [(part, "override", name) for name in FIGURE_SECTIONS]
    for place in places:
        section = data
        for name in place:
            section = section.get(name) if isinstance(section, dict) else None
        if isinstance(section, dict):
            _expand_section(section, place, defaults, sources, tree, problems)
    if problems:
        raise ProfileError(problems)


def _defaults(raw: Any, tree: Tree, path: tuple[str, ...], problems: list[Problem]) -> dict[str, Any]:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        problems.append(Problem(*tree.mark(path), ".".join(path), str(raw), "is not a mapping; write {source: KEY}"))
        return {}
    for key in raw:
        if key not in _PROVENANCE:
            message = f"is not a field of defaults; {nearest(key, _PROVENANCE)}"
            problems.append(Problem(*tree.mark((*path, key)), ".".join((*path, key)), "", message))
    return dict(raw)


def _expand_section(
    section: dict[str, Any],
    path: tuple[str, ...],
    outer: dict[str, Any],
    sources: dict[str, Any],
    tree: Tree,
    problems: list[Problem],
) -> None:
    defaults = outer | _defaults(section.pop("defaults", None), tree, (*path, "defaults"), problems)
    for key, value in section.items():
        if key in TEXT_FIELDS:
            continue
        here = (*path, key)
        if isinstance(value, dict) and not is_figure(value):
            _expand_section(value, here, defaults, sources, tree, problems)
        elif not isinstance(value, list):
            section[key] = _with_provenance(value, here, defaults, sources, tree, problems)


def _with_provenance(
    value: Any,
    path: tuple[str, ...],
    defaults: dict[str, Any],
    sources: dict[str, Any],
    tree: Tree,
    problems: list[Problem],
) -> dict[str, Any]:
    figure = dict(value) if isinstance(value, dict) else {"value": value}
    # A figure with a source of its own does not take the date of another source.
    inherited = {k: v for k, v in defaults.items() if not (k == "date" and "source" in figure)}
    figure = inherited | figure
    keys = figure.get("source")
    keys = [key for key in (keys if isinstance(keys, list) else [keys]) if isinstance(key, str)]
    for key in keys:
        if key not in sources:
            message = f"is not among this file's sources; {nearest(str(key), sources)}"
            problems.append(Problem(*tree.mark(path), ".".join((*path, "source")), str(key), message))
    if "date" not in figure and keys and isinstance(sources.get(keys[0]), dict) and "date" in sources[keys[0]]:
        figure["date"] = sources[keys[0]]["date"]
    return figure


def overlay(base: Tree, top: Tree) -> Tree:
    """Return ``base`` with ``top`` laid over it.

    Sections merge field by field; a figure is replaced whole, so that a value never keeps another's source.
    """
    merged = Tree({}, {})
    merged.data = _merge(base, top, base.data, top.data, (), merged)
    merged.marks[()] = top.marks.get((), ("", 1))
    return merged


def _merge(base: Tree, top: Tree, below: Any, above: Any, path: tuple[str, ...], out: Tree) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key in [*below, *(k for k in above if k not in below)]:
        here = (*path, key)
        if key not in above:
            made[key] = below[key]
            _copy_marks(base, here, out)
        elif key in below and _mergeable(below[key], above[key], here):
            out.marks[here] = top.marks.get(here) or ("", 1)
            made[key] = _merge(base, top, below[key], above[key], here, out)
        else:
            made[key] = above[key]
            _copy_marks(top, here, out)
    return made


def _mergeable(below: Any, above: Any, path: tuple[str, ...]) -> bool:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return False
    return path[0] not in FIGURE_SECTIONS or not (is_figure(below) or is_figure(above))


def _copy_marks(tree: Tree, path: tuple[str, ...], out: Tree) -> None:
    size = len(path)
    for known, mark in tree.marks.items():
        if known[:size] == path:
            out.marks[known] = mark


def figures_of(value: Any, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return all figures and gaps below a validated section, by dotted path."""
    from pydantic import BaseModel

    from .figure import Gap

    if isinstance(value, Figure | Gap):
        return {".".join(path): value}
    found: dict[str, Any] = {}
    if isinstance(value, BaseModel):
        items = [(name, getattr(value, name)) for name in type(value).model_fields]
    elif isinstance(value, dict):
        items = list(value.items())
    else:
        return found
    for name, item in items:
        found |= figures_of(item, (*path, name))
    return found
