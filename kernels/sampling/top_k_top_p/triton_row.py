"""The Triton kernels of sampling.top_k_top_p: bias, penalties, and one program per row that cuts and draws.

A program reads its row from memory once; the passes that follow find it in the L2 cache.
"""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportGeneralTypeIssues=false, reportCallIssue=false, reportAttributeAccessIssue=false

import triton
import triton.language as tl

from ..triton_weights import key_of, least_below_target, mass_from, value_of, weights

_LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def add_bias(work, vocab, bias_token, bias, biased, BLOCK: tl.constexpr):
    """Add the bias of a block of a row's listed tokens."""
    row = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    token = tl.load(bias_token + row * biased + j, mask=j < biased, other=-1)
    value = tl.load(bias + row * biased + j, mask=j < biased, other=0.0).to(tl.float64)
    place = work + row * vocab + token
    x = tl.load(place, mask=token >= 0, other=0.0).to(tl.float64)
    tl.store(place, (x + value).to(tl.float32), mask=token >= 0)


@triton.jit
def penalise(
    work, vocab, seen_token, seen_count, seen, repetition, presence, frequency, BLOCK: tl.constexpr
):  # fmt: skip
    """Apply the penalties to a block of a row's seen tokens; float64 until the result is stored."""
    row = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    token = tl.load(seen_token + row * seen + j, mask=j < seen, other=-1)
    count = tl.load(seen_count + row * seen + j, mask=j < seen, other=0).to(tl.float64)
    factor = tl.load(repetition + row).to(tl.float64)
    place = work + row * vocab + token
    x = tl.load(place, mask=token >= 0, other=0.0).to(tl.float64)
    x = tl.where(x > 0, x / factor, x * factor)
    x = x - tl.load(frequency + row).to(tl.float64) * count
    x = x - tl.where(count > 0, tl.load(presence + row).to(tl.float64), 0.0)
    tl.store(place, x.to(tl.float32), mask=token >= 0)


@triton.jit
def _maximum(base, n, BLOCK: tl.constexpr):
    """The largest logit, and how many are NaN."""
    m = tl.full([BLOCK], float("-inf"), tl.float32)
    missing = tl.zeros([BLOCK], tl.int32)
    for at in range(0, n, BLOCK):
        index = at + tl.arange(0, BLOCK)
        x = tl.load(base + index, mask=index < n, other=float("-inf")).to(tl.float32)
        missing += (x != x).to(tl.int32)
        m = tl.maximum(m, x)
    return tl.max(m), tl.sum(missing)


@triton.jit
def _first_of(base, n, value, BLOCK: tl.constexpr):
    best = tl.full([BLOCK], 2147483647, tl.int32)
    for at in range(0, n, BLOCK):
        index = at + tl.arange(0, BLOCK)
        x = tl.load(base + index, mask=index < n, other=float("-inf")).to(tl.float32)
        best = tl.minimum(best, tl.where(x == value, index, 2147483647))
    return tl.min(best)


@triton.jit
def _cut(base, n, top, scale, unit, top_k, top_p, least, BLOCK: tl.constexpr):
    """The least logit that min-p, top-k and top-p keep, where ``least`` is the one that min-p keeps."""
    lowest = key_of(tl.full([], float("-inf"), tl.float32))
    high = key_of(top)
    kept = least
    if (top_k > 0) & (top_k < n):
        total, _ = mass_from(base, n, float("-inf"), top, 0.0, unit, BLOCK)
        wanted = top_k.to(tl.int64) * unit.to(tl.int64)
        if total > wanted:
            key = least_below_target(base, n, lowest, high, wanted, top, 0.0, unit, BLOCK)
            kept = tl.maximum(kept, value_of(key))
    if top_p < 1.0:
        total, _ = mass_from(base, n, kept, top, scale, unit, BLOCK)
        wanted = tl.ceil(total.to(tl.float64) * top_p).to(tl.int64)
        wanted = tl.minimum(tl.maximum(wanted, 1), total)
        # Two below, because both zeros are one value.
        low = tl.maximum(key_of(kept) - 2, lowest)
        key = least_below_target(base, n, low, high, wanted, top, scale, unit, BLOCK)
        kept = tl.maximum(kept, value_of(key))
    return kept


@triton.jit
def _draw(base, n, kept, top, scale, unit, rest, BLOCK: tl.constexpr):
    """The first token up to which the kept ones weigh more than ``rest``."""
    found = tl.full([], 2147483647, tl.int32)
    for at in range(0, n, BLOCK):
        index = at + tl.arange(0, BLOCK)
        x = tl.load(base + index, mask=index < n, other=float("-inf")).to(tl.float32)
        w = tl.where((x >= kept) & (x > float("-inf")), weights(x, top, scale, unit), 0)
        mass = tl.sum(w)
        if (rest >= 0) & (rest < mass):
            passed = tl.cumsum(w, 0) > rest
            found = tl.min(tl.where(passed, index, 2147483647))
        rest -= mass
    return found


@triton.jit
def sample_rows(
    logits, vocab, temperature, power, least_shift, top_k, top_p, seed, offset, token, logprob, count, unit_weight,
    BLOCK: tl.constexpr
):  # fmt: skip
    """Cut and draw one row; ``power`` is log2(e) / T and ``least_shift`` is T log(min_p), both float64."""
    row = tl.program_id(0).to(tl.int64)
    base = logits + row * vocab
    unit = tl.full([], unit_weight, tl.float32)
    top, missing = _maximum(base, vocab, BLOCK)
    if (missing == 0) & (top < float("inf")) & (top > float("-inf")):
        if tl.load(temperature + row) == 0.0:
            tl.store(token + row, _first_of(base, vocab, top, BLOCK))
            tl.store(logprob + row, 0.0)
            tl.store(count + row, 1)
        else:
            exact = tl.load(power + row)
            scale = exact.to(tl.float32)
            limit = top.to(tl.float64) + tl.load(least_shift + row)
            least = limit.to(tl.float32)
            least = tl.where(least.to(tl.float64) < limit, value_of(key_of(least) + 1), least)
            kept = _cut(base, vocab, top, scale, unit, tl.load(top_k + row), tl.load(top_p + row), least, BLOCK)
            total, number = mass_from(base, vocab, kept, top, scale, unit, BLOCK)
            w0, w1, _, _ = tl.randint4x(tl.load(seed + row), tl.load(offset + row).to(tl.uint32))
            uniform = (w0.to(tl.uint32, bitcast=True).to(tl.uint64) << 32) | w1.to(tl.uint32, bitcast=True).to(
                tl.uint64
            )
            rest = tl.umulhi(uniform, total.to(tl.uint64)).to(tl.int64)
            chosen = _draw(base, vocab, kept, top, scale, unit, rest, BLOCK)
            x = tl.load(base + chosen).to(tl.float64)
            log_total = tl.log2(total.to(tl.float32) / unit).to(tl.float64)
            tl.store(token + row, chosen)
            value = ((x - top.to(tl.float64)) * exact - log_total) * _LN_2
            tl.store(logprob + row, value.to(tl.float32))
            tl.store(count + row, number)
    else:
        tl.store(token + row, -1)
        tl.store(logprob + row, float("nan"))
        tl.store(count + row, 0)
