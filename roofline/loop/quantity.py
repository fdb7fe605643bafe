"""Quantities in scenarios: a number with a unit as people write it (``30 s``, ``2 GiB``, ``0.05 USD/h``), by pint."""

from __future__ import annotations

import math
from functools import cache
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_PLAIN = {
    "s": ("30 s", "second"),
    "byte": ("2 GiB", "byte"),
    "USD/h": ("0.05 USD/h", "USD/hour"),
    "USD": ("30000 USD", "USD"),
    "USD/kWh": ("0.08 USD/kWh", "USD/kWh"),
}


@cache
def _registry() -> Any:
    import pint

    registry = pint.UnitRegistry()
    registry.define("USD = [currency]")
    return registry


def parse(value: object, unit: str) -> float:
    """Return the value in ``unit``.

    Raises
    ------
    ValueError
        If there is no unit, or one of another kind; the message gives an example.
    """
    example = _PLAIN[unit][0]
    if not isinstance(value, str):
        raise ValueError(f"has no unit; write it with one, such as {example}")
    import pint

    try:
        quantity = _registry().Quantity(value)
        number = float(quantity.to(_PLAIN[unit][1]).magnitude)
    except pint.DimensionalityError as error:
        kind = f"in {error.units1}" if str(error.units1) != "dimensionless" else "without a unit"
        raise ValueError(f"is {kind}; write it like {example}") from None
    except Exception as error:  # pint raises many kinds for text that is no quantity
        raise ValueError(f"is not a quantity ({error}); write it like {example}") from None
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"must be finite and not negative; write it like {example}")
    return number


def _reader(unit: str) -> BeforeValidator:
    return BeforeValidator(lambda value: parse(value, unit))


Seconds = Annotated[float, _reader("s"), Field(examples=["30 s"])]
Bytes = Annotated[float, _reader("byte"), Field(examples=["2 GiB"])]
UsdPerHour = Annotated[float, _reader("USD/h"), Field(examples=["0.05 USD/h"])]
Usd = Annotated[float, _reader("USD"), Field(examples=["30000 USD"])]
UsdPerKwh = Annotated[float, _reader("USD/kWh"), Field(examples=["0.08 USD/kWh"])]
