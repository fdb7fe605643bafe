"""What can be wrong with a profile or its name, said in one line each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it stands, the value, and what to do about it."""

    file: str
    line: int | None
    field: str
    value: str
    message: str

    def __str__(self) -> str:
        """Return ``file:line: field = value: message``."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        what = f"{self.field} = {self.value}" if self.field and self.value else self.field or self.value
        return " ".join((f"{place}: {what}: {self.message}" if what else f"{place}: {self.message}").split())


class ProfileError(ValueError):
    """A profile that cannot be trusted. ``problems`` holds every one found, the message the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        more = len(self.problems) - 1
        tail = f" (and {more} more: roofcast hw check {self.problems[0].file})" if more else ""
        super().__init__(f"{self.problems[0]}{tail}")


class UnknownProfileError(LookupError):
    """A name that no profile has; the message gives the nearest ones."""


class FieldError(ValueError):
    """A problem of one field, found where its place in the file is not known.

    ``suffix`` is the path below the field that the caller knows.
    """

    def __init__(self, value: object, message: str, suffix: tuple[str, ...] = ()) -> None:
        self.value = "" if value is None else shorten(str(value))
        self.message = message
        self.suffix = suffix
        super().__init__(message)


def shorten(text: str, width: int = 60) -> str:
    """Return ``text`` on one line, cut to ``width`` characters, quoted."""
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= width else flat[: width - 3] + "...")


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str:
    """Return ``did you mean x?``, or the known names if none is near."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=cutoff)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known: {', '.join(names)}" if names else "none is known"
