"""Quantities are read as pint reads them, and refused with a remedy where they are not what the field holds."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofcast.hwprofiles.errors import FieldError
from roofcast.hwprofiles.units import COMMON, DIMENSIONS, parse_quantity, parse_range, read_unit


@pytest.mark.parametrize("spelling", [s for s in COMMON if s])
def test_table_of_common_units_is_what_pint_says(spelling: str) -> None:
    by_pint = read_unit(spelling)
    assert by_pint.si == COMMON[spelling].si
    assert by_pint.bits == COMMON[spelling].bits
    assert math.isclose(by_pint.factor, COMMON[spelling].factor, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("22 TB/s", "bandwidth", 22e12),
        ("1.555e3 GB/s", "bandwidth", 1.555e12),
        ("400 Gb/s", "link", 50e9),
        ("126.5 MiB", "size", 132_644_864.0),
        ("2.25 PFLOP/s", "flop_rate", 2.25e15),
        ("0.165 POP/s", "op_rate", 1.65e14),
        ("1965 MHz", "clock", 1.965e9),
        ("2.17 kW", "power", 2170.0),
        ("7680 bit", "width", 960.0),
        ("148", "count", 148.0),
        ("3.1 MUSD", "price", 3.1e6),
        ("2.34 USD/h", "price_per_hour", 2.34),
        ("4 Mbytes/hour", "bandwidth", None),
        ("8 terabytes/second", "bandwidth", 8e12),
        ("8e3 gigabyte/second", "bandwidth", 8e12),
        ("8 TB / s", "bandwidth", 8e12),
    ],
)
def test_quantities(text: str, dimension: str, value: float | None) -> None:
    if value is None:
        with pytest.raises(FieldError):
            parse_quantity(text, DIMENSIONS[dimension])
    else:
        assert math.isclose(parse_quantity(text, DIMENSIONS[dimension]), value, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("text", "dimension", "says"),
    [
        ("8 TB", "bandwidth", "is a size, not a bandwidth"),
        ("8 Tb/s", "bandwidth", "write 1 TB/s"),
        ("8", "bandwidth", "has no unit"),
        ("-8 TB/s", "bandwidth", "must be above 0"),
        ("0 TB/s", "bandwidth", "must be above 0"),
        ("nan TB/s", "bandwidth", "is not a number"),
        ("inf TB/s", "bandwidth", "is not a number"),
        ("1e30 TB/s", "bandwidth", "a digit or a prefix is wrong"),
        ("1e400 TB/s", "bandwidth", "must be above 0"),
        ("1e30", "count", "a digit or a prefix is wrong"),
        ("1,400 W", "power", "has a comma"),
        ("228 KB", "size", "KB may mean 1000 or 1024"),
        ("8 TBps", "bandwidth", "is not known"),
        ("8 barn/s", "bandwidth", "is not known"),
        ("2.25 PFLOPs", "flop_rate", "is a count of FLOP, not a rate"),
        ("2.25 PFLOP", "flop_rate", "is a count of FLOP, not a rate"),
        ("4500 TFLOP/s", "op_rate", "is a rate of floating-point work, not a rate of operations"),
        ("700 kWh", "power", "is not known"),
        ("fast", "bandwidth", "is not a number"),
        ("8 GB/s", "data_rate", "counts bytes (B)"),
        ("8 TB/s; import os", "bandwidth", "is not known"),
        ("8 TB/s**__import__", "bandwidth", "is not known"),
    ],
)
def test_refusals_say_what_to_do(text: str, dimension: str, says: str) -> None:
    with pytest.raises(FieldError) as caught:
        parse_quantity(text, DIMENSIONS[dimension])
    assert says in caught.value.message
    assert caught.value.value


def test_ranges() -> None:
    bandwidth = DIMENSIONS["bandwidth"]
    assert parse_range("19.2..22 TB/s", bandwidth) == (19.2e12, 22e12)
    assert parse_range("900 GB/s .. 1.8 TB/s", bandwidth) == (900e9, 1.8e12)
    for wrong in ("22..19.2 TB/s", "19.2-22 TB/s", "19.2..22", "..22 TB/s", "1..2..3 TB/s"):
        with pytest.raises(FieldError):
            parse_range(wrong, bandwidth)


@given(st.text(max_size=30), st.sampled_from(sorted(DIMENSIONS)))
def test_any_text_is_a_plausible_quantity_or_a_field_error(text: str, dimension: str) -> None:
    limits = DIMENSIONS[dimension]
    with contextlib.suppress(FieldError):
        assert limits.least <= parse_quantity(text, limits) <= limits.most


@given(st.floats(1e-2, 1e3), st.sampled_from(["GB/s", "TB/s"]))
def test_round_trip(number: float, unit: str) -> None:
    value = parse_quantity(f"{number!r} {unit}", DIMENSIONS["bandwidth"])
    assert math.isclose(value, number * COMMON[unit].factor, rel_tol=1e-12)
