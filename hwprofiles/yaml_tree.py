"""Strict YAML: every scalar stays the text that was written, and every value knows its line.

A profile is data that people send each other, so nothing clever is allowed in it: no anchors, aliases, tags, merge
keys, duplicate keys or several documents. What a text means (number, unit, date) is decided by the schema alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .errors import Problem, ProfileError, shorten

MAX_BYTES = 1_000_000
MAX_DEPTH = 12
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Path_ = tuple[str, ...]


@dataclass
class Tree:
    """A parsed file: nested dicts, lists and texts, and the ``(file, line)`` of each path."""

    data: dict[str, Any]
    marks: dict[Path_, tuple[str, int]] = field(default_factory=dict)

    def mark(self, path: Path_) -> tuple[str, int | None]:
        """Return file and line of a path, or of the nearest enclosing one."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.marks:
                return self.marks[path[:length]]
        return "", None


def _line(event: Any) -> int:
    return event.start_mark.line + 1


class _Builder:
    def __init__(self, file: str, events: Iterator[Any]) -> None:
        self.file = file
        self.events = events
        self.marks: dict[Path_, tuple[str, int]] = {}

    def fail(self, event: Any, path: Path_, value: str, message: str) -> ProfileError:
        return ProfileError([Problem(self.file, _line(event), ".".join(path), value, message)])

    def build(self, event: Any, path: Path_) -> Any:
        if isinstance(event, yaml.AliasEvent):
            raise self.fail(event, path, f"*{event.anchor}", "YAML aliases are not allowed; write the value out")
        if event.anchor is not None:
            raise self.fail(event, path, f"&{event.anchor}", "YAML anchors are not allowed; remove it")
        if event.tag is not None:
            raise self.fail(event, path, event.tag, "YAML tags are not allowed; write plain text")
        if len(path) > MAX_DEPTH:
            raise self.fail(event, path[:3], "", f"nested more than {MAX_DEPTH} deep; no field of a profile is")
        self.marks.setdefault(path, (self.file, _line(event)))
        if isinstance(event, yaml.ScalarEvent):
            return event.value
        if isinstance(event, yaml.SequenceStartEvent):
            return self.sequence(path)
        return self.mapping(path)

    def sequence(self, path: Path_) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.build(event, (*path, str(len(items)))))
        return items

    def mapping(self, path: Path_) -> dict[str, Any]:
        made: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent) or event.tag is not None or event.anchor is not None:
                raise self.fail(
                    event, path, "", "a field name must be plain text; if a value starts with {, [ or &, quote it"
                )
            key = event.value
            if key in made:
                first = self.marks[(*path, key)][1]
                raise self.fail(
                    event, (*path, key), "", f"stands twice, first in line {first}; keep one, the other would be lost"
                )
            self.marks[(*path, key)] = (self.file, _line(event))
            made[key] = self.build(next(self.events), (*path, key))
        return made


def read_text(path: Path) -> str:
    """Return a profile's text.

    Raises
    ------
    ProfileError
        If it is too large, or not UTF-8.
    OSError
        If it cannot be read.
    """
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ProfileError(
            [
                Problem(
                    str(path),
                    None,
                    "",
                    "",
                    f"has {size / 1e6:.0f} MB and a profile at most 1 MB; is it the right file?",
                )
            ]
        )
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        byte = f"byte 0x{raw[error.start]:02x}"
        raise ProfileError([Problem(str(path), line, "", byte, "is not UTF-8; save the file as UTF-8")]) from None


def parse(text: str, file: str) -> Tree:
    """Parse one mapping.

    Raises
    ------
    ProfileError
        If the text is not strict YAML; the problem names the line.
    """
    try:
        events = iter(yaml.parse(text, Loader=_LOADER))
        builder = _Builder(file, events)
        next(events)  # stream start
        first = next(events)
        if isinstance(first, yaml.StreamEndEvent):
            raise ProfileError([Problem(file, 1, "", "", "is empty; a profile starts with name:, kind: and vendor:")])
        event = next(events)
        data = builder.build(event, ())
        next(events)  # document end
        last = next(events)
    except yaml.YAMLError as error:
        raise ProfileError([_syntax_problem(error, text, file)]) from None
    if not isinstance(data, dict):
        raise ProfileError(
            [Problem(file, 1, "", shorten(str(data)), "is not a mapping; write fields such as name: b200")]
        )
    if not isinstance(last, yaml.StreamEndEvent):
        line = _line(last)
        raise ProfileError([Problem(file, line, "", "---", "starts a second document; one file holds one profile")])
    return Tree(data, builder.marks)


def _syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else None
    lines = text.splitlines()
    written = lines[line - 1] if line and line <= len(lines) else ""
    message = getattr(error, "problem", None) or getattr(error, "reason", None) or "is not YAML"
    remedy = "check indentation, quotes and colons"
    if "\t" in written[: len(written) - len(written.lstrip())] or "\\t" in message or "'\t'" in message:
        message, remedy = "is indented by a tab", "indent by spaces"
    return Problem(file, line, "", shorten(written.strip()) if written.strip() else "", f"{message}; {remedy}")
