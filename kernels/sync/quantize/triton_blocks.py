"""The Triton kernels of sync.quantize: blocks of 128 x 128 to e4m3, groups of 16 to e2m1, and the largest weight."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false

import triton
import triton.language as tl

from ...triton_rounding import code_of, e4m3_code, inverse_or_zero


@triton.jit
def quantize_fp8(weight, code, scale, rows, columns, BLOCK: tl.constexpr):
    """Quantise one block."""
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (r < rows) & (c < columns)
    place = r.to(tl.int64) * columns + c
    x = tl.load(weight + place, mask=inside, other=0.0).to(tl.float32)
    s = tl.div_rn(tl.max(tl.max(tl.abs(x), axis=1), axis=0), 448.0)
    tl.store(scale + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), s)
    y = x * inverse_or_zero(s)
    tl.store(code + place, e4m3_code(y).to(tl.uint8), mask=inside)


@triton.jit
def quantize_maxima(pairs, parts, n, BLOCK: tl.constexpr):
    """Find the largest magnitude of every n-th block of pairs, n being the number of programs."""
    i = tl.arange(0, BLOCK)
    top = tl.zeros([BLOCK], tl.float32)
    for first in range(0, n, tl.num_programs(0) * BLOCK):
        at = first + tl.program_id(0) * BLOCK + i
        x = tl.load(pairs + at, mask=at < n, other=0)
        low, high = (x << 16).to(tl.float32, bitcast=True), (x & -65536).to(tl.float32, bitcast=True)
        top = tl.maximum(top, tl.maximum(tl.abs(low), tl.abs(high)))
    tl.store(parts + tl.program_id(0), tl.max(top, axis=0))


@triton.jit
def quantize_tensor_scale(parts, tensor_scale, number, PARTS: tl.constexpr):
    """Turn the parts' maxima into the tensor's scale; one program."""
    i = tl.arange(0, PARTS)
    top = tl.max(tl.load(parts + i, mask=i < number, other=0.0), axis=0)
    tl.store(tensor_scale, tl.div_rn(top, 2688.0))


@triton.jit
def _nibble(y):
    bounded = tl.minimum(tl.maximum(y, -6.0), 6.0)
    return code_of(bounded, 1, 127) | ((y.to(tl.int32, bitcast=True) >> 28) & 8)


@triton.jit
def quantize_nvfp4(pairs, code, scale, tensor_scale, groups, GROUPS: tl.constexpr):
    """Quantise GROUPS groups of 16 weights, that is 8 pairs."""
    g = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    place = g[:, None].to(tl.int64) * 8 + tl.arange(0, 8)[None, :]
    inside = (g < groups)[:, None]
    x = tl.load(pairs + place, mask=inside, other=0)
    low, high = (x << 16).to(tl.float32, bitcast=True), (x & -65536).to(tl.float32, bitcast=True)
    top = tl.max(tl.maximum(tl.abs(low), tl.abs(high)), axis=1)
    wide = tl.load(tensor_scale)
    s = code_of(tl.minimum(top * (1.0 / 6.0) * inverse_or_zero(wide), 448.0), 3, 121)
    tl.store(scale + g, s.to(tl.uint8), mask=g < groups)
    normal = ((s << 20) + (120 << 23)).to(tl.float32, bitcast=True)
    value = tl.where(s < 8, s.to(tl.float32) * 0.001953125, normal)
    factor = inverse_or_zero(value * wide)[:, None]
    packed = _nibble(low * factor) | (_nibble(high * factor) << 4)
    tl.store(code + place, packed.to(tl.uint8), mask=inside)
