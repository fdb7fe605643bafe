"""A figure of a profile: a value in SI units that knows where it comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

Confidence = Literal["high", "medium", "low"]
CONFIDENCES: tuple[Confidence, ...] = ("high", "medium", "low")


@dataclass(frozen=True)
class Source:
    """Where figures come from. ``key`` is the id that figures cite."""

    key: str
    title: str
    date: str
    url: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return {"key": self.key, "title": self.title, "date": self.date, "url": self.url}


@dataclass(frozen=True)
class Figure:
    """A value with its range, unit and provenance.

    Parameters
    ----------
    value
        In ``unit``, which is SI: ``bytes/s``, ``bytes``, ``FLOP/s``, ``op/s``, ``Hz``, ``W``, ``s`` or ``1``.
    low, high
        The range where sources disagree; equal to ``value`` where they agree.
    text
        The value as the file writes it; for a derived figure, its formula.
    sources
        Keys of the sources, the one that decides first.
    date
        Date of the figure (year, month or day).
    confidence
        ``high``, ``medium`` or ``low``.
    """

    value: float
    low: float
    high: float
    unit: str
    text: str
    sources: tuple[str, ...]
    date: str
    confidence: Confidence
    note: str = ""

    @property
    def source(self) -> str:
        """The key of the source that decides."""
        return self.sources[0]

    @property
    def is_range(self) -> bool:
        """Whether sources disagree."""
        return self.low < self.high

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "unit": self.unit,
            "text": self.text,
            "sources": list(self.sources),
            "date": self.date,
            "confidence": self.confidence,
            "note": self.note,
        }

    def scaled(self, factor: float, note: str) -> Figure:
        """Return the figure times ``factor``, with ``note`` added."""
        return replace(
            self,
            value=self.value * factor,
            low=self.low * factor,
            high=self.high * factor,
            text=f"{factor:.3g} x {self.text}",
            note=f"{self.note}; {note}" if self.note else note,
        )


@dataclass(frozen=True)
class Gap:
    """A figure that is not there: ``unknown`` (nobody published it) or ``none`` (the device has no such part)."""

    state: Literal["unknown", "none"]
    note: str = ""


@dataclass(frozen=True)
class Price:
    """A price with its spread between providers.

    ``unit`` is ``USD/h`` (per GPU and hour) or ``USD`` (to buy one device or system).
    """

    low: float
    typical: float
    high: float
    unit: str
    text: str
    sources: tuple[str, ...]
    date: str
    confidence: Confidence
    note: str = ""

    @property
    def source(self) -> str:
        """The key of the source that decides."""
        return self.sources[0]

    @classmethod
    def of(cls, figure: Figure) -> Price:
        """Read a figure as a price: its value is the typical one, its range the spread."""
        return cls(
            figure.low,
            figure.value,
            figure.high,
            figure.unit,
            figure.text,
            figure.sources,
            figure.date,
            figure.confidence,
            figure.note,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return {
            "low": self.low,
            "typical": self.typical,
            "high": self.high,
            "unit": self.unit,
            "text": self.text,
            "sources": list(self.sources),
            "date": self.date,
            "confidence": self.confidence,
            "note": self.note,
        }


def product(*factors: Figure, unit: str, note: str = "") -> Figure:
    """Multiply figures. Ranges multiply too; the least confidence and the latest date win.

    Parameters
    ----------
    factors
        At least one figure; the first one's sources come first.
    unit
        SI unit of the product, which the caller knows.
    """
    value = low = high = 1.0
    for factor in factors:
        value, low, high = value * factor.value, low * factor.low, high * factor.high
    sources = tuple(dict.fromkeys(key for factor in factors for key in factor.sources))
    confidence = CONFIDENCES[max(CONFIDENCES.index(f.confidence) for f in factors)]
    text = " x ".join(f.text for f in factors)
    date = max(f.date for f in factors)
    return Figure(value, low, high, unit, text, sources, date, confidence, note or f"derived: {text}")
