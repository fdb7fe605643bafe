"""Triton: rounding to few mantissa bits by integer arithmetic, which is the same on every GPU.

A power of two is added whose last place is the wanted one, so that the sum's low bits are the rounded magnitude.
"""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false

import triton
import triton.language as tl


@triton.jit
def code_of(y, MANTISSA: tl.constexpr, LEAST: tl.constexpr):
    """The magnitude's code, for exponents from LEAST (biased by 127) on."""
    bits = y.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    exponent = tl.maximum(bits & 0x7F800000, LEAST << 23)
    anchor = exponent + ((23 - MANTISSA) << 23)
    total = bits.to(tl.float32, bitcast=True) + anchor.to(tl.float32, bitcast=True)
    return (exponent >> (23 - MANTISSA)) + (total.to(tl.int32, bitcast=True) - anchor) - (LEAST << MANTISSA)


@triton.jit
def e4m3_code(y):
    """The e4m3 code of values of at most 448 and a little."""
    return code_of(y, 3, 121) | ((y.to(tl.int32, bitcast=True) >> 24) & 0x80)


@triton.jit
def inverse_or_zero(scale):
    """The reciprocal, 0 of a scale of 0."""
    return tl.where(scale > 0.0, 1.0 / tl.where(scale > 0.0, scale, 1.0), 0.0)
