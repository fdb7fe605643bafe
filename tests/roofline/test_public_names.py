"""The room's public names are there, and light until one is used."""

from __future__ import annotations

import subprocess
import sys

import pytest
import roofcast.roofline


@pytest.mark.parametrize("name", roofcast.roofline.__all__)
def test_public_names_exist(name: str) -> None:
    assert getattr(roofcast.roofline, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nosuch"):
        roofcast.roofline.nosuch  # noqa: B018


def test_projecting_loads_no_plotting_and_no_backend() -> None:
    code = (
        "import roofcast.roofline.projection, roofcast.roofline.judge, roofcast.roofline.plot, sys;"
        "print(*[m for m in sys.modules if '.' not in m])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"matplotlib", "plotly", "torch", "numba", "triton", "pandas", "scipy", "pint"} & set(loaded)
