"""Compile the inner functions of a kernel without reference counts.

Numba counts references to the arrays it hands to a function, with an atomic instruction each (some 20 cycles on x86),
and removes the pairs it can prove needless, which it cannot where the function branches or loops. A function that only
reads and writes the arrays it is given needs none: with them, the two largest of 32 scores took nine times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])
# Numba's decorators are untyped.
_njit: Any = njit


def leaf(function: _Function) -> _Function:
    """Compile a function that allocates nothing and returns no array, to be called from compiled code."""
    return _njit(_nrt=False)(function)


def inlined(function: _Function) -> _Function:
    """As `leaf`, and put into its callers."""
    return _njit(_nrt=False, forceinline=True)(function)
