"""Whole-number weights in Triton kernels, bit for bit those of Numba; see `exact_weights`."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportGeneralTypeIssues=false, reportCallIssue=false, reportAttributeAccessIssue=false

import triton
import triton.language as tl

# The polynomial of simd.exp2_product; a test holds both equal.
_C1 = tl.constexpr(0.6931470036506653)
_C2 = tl.constexpr(0.24022242426872253)
_C3 = tl.constexpr(0.05550733581185341)
_C4 = tl.constexpr(0.009671512991189957)
_C5 = tl.constexpr(0.001326472731307149)
_ROUNDER = tl.constexpr(12582912.0)


@triton.jit
def weights(x, base, scale, unit):
    """floor(2**((x - base) scale) * unit) as int64; one unit where ``scale`` is 0."""
    least = tl.where(scale > 0.0, -125.0 / tl.where(scale > 0.0, scale, 1.0), -1e38)
    d = tl.maximum(x - base, least)
    shifted = tl.fma(d, scale, _ROUNDER)
    f = tl.fma(d, scale, _ROUNDER - shifted)
    p = tl.fma(f, _C5, _C4)
    p = tl.fma(p, f, _C3)
    p = tl.fma(p, f, _C2)
    p = tl.fma(p, f, _C1)
    p = tl.fma(p, f, 1.0)
    bits = p.to(tl.int32, bitcast=True) + (shifted.to(tl.int32, bitcast=True) << 23)
    return (bits.to(tl.float32, bitcast=True) * unit).to(tl.int64)


@triton.jit
def key_of(value):
    """The int64 that orders as a float32 does (-0.0 just below 0.0)."""
    bits = value.to(tl.int32, bitcast=True)
    return tl.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).to(tl.int64)


@triton.jit
def value_of(key):
    """The float32 of a key."""
    bits = key.to(tl.int32)
    return tl.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).to(tl.float32, bitcast=True)


@triton.jit
def mass_from(row, n, bound, base, scale, unit, BLOCK: tl.constexpr):
    """Weight and number of the logits from a bound on that are not -inf."""
    mass = tl.zeros([BLOCK], tl.int64)
    count = tl.zeros([BLOCK], tl.int32)
    for at in range(0, n, BLOCK):
        index = at + tl.arange(0, BLOCK)
        x = tl.load(row + index, mask=index < n, other=float("-inf")).to(tl.float32)
        stays = (x >= bound) & (x > float("-inf"))
        mass += tl.where(stays, weights(x, base, scale, unit), 0)
        count += stays.to(tl.int32)
    return tl.sum(mass), tl.sum(count)


@triton.jit
def least_below_target(row, n, low, high, target, base, scale, unit, BLOCK: tl.constexpr):
    """The smallest key in (low, high] above which lies less than the target; each pass quarters the range."""
    while high - low > 1:
        k1 = low + (high - low) // 4
        k2 = low + (high - low) // 2
        k3 = low + (high - low) * 3 // 4
        m1 = tl.zeros([BLOCK], tl.int64)
        m2 = tl.zeros([BLOCK], tl.int64)
        m3 = tl.zeros([BLOCK], tl.int64)
        for at in range(0, n, BLOCK):
            index = at + tl.arange(0, BLOCK)
            x = tl.load(row + index, mask=index < n, other=float("-inf")).to(tl.float32)
            w = weights(x, base, scale, unit)
            m1 += tl.where(x > value_of(k1), w, 0)
            m2 += tl.where(x > value_of(k2), w, 0)
            m3 += tl.where(x > value_of(k3), w, 0)
        s1 = tl.sum(m1)
        s2 = tl.sum(m2)
        s3 = tl.sum(m3)
        # The weight above falls with the key: the first key with less than the target is the new upper end.
        new_high = tl.where(s1 < target, k1, tl.where(s2 < target, k2, tl.where(s3 < target, k3, high)))
        low = tl.where(s3 >= target, k3, tl.where(s2 >= target, k2, tl.where(s1 >= target, k1, low)))
        high = new_high
    return high
