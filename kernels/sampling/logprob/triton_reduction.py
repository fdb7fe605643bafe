"""The Triton kernels of sampling.logprob: reduce chunks of rows, merge the chunks.

A program keeps its sums per lane, relative to a maximum per lane, so that its threads do not synchronise before the end
of the chunk: a tile of ``[UNROLL, LANES]`` logits is reduced along its first axis within each thread.
"""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false

import triton
import triton.language as tl

_LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _above(x, base, scale):
    """(x - base) * scale, with -inf where both are -inf."""
    return tl.where(x == float("-inf"), float("-inf"), (x - base) * scale)


@triton.jit
def _pack(x, index):
    """Key that sorts as the value does and, among equals, by lower index first; -inf and NaN give 0."""
    bits = x.to(tl.int32, bitcast=True)
    ordered = tl.where(bits < 0, ~bits, bits ^ -2147483648).to(tl.uint32, bitcast=True)
    key = (ordered.to(tl.uint64) << 32) | (4294967295 - index.to(tl.uint64))
    return tl.where(x > float("-inf"), key, 0)


@triton.jit
def _unpack_value(key):
    ordered = (key >> 32).to(tl.uint32).to(tl.int32, bitcast=True)
    bits = tl.where(ordered < 0, ordered ^ -2147483648, ~ordered)
    return tl.where(key == 0, float("-inf"), bits.to(tl.float32, bitcast=True))


@triton.jit
def _unpack_token(key):
    return tl.where(key == 0, -1, (4294967295 - (key & 4294967295)).to(tl.int64))


@triton.jit
def _write_row(row, top, s, w, x, scale, logprob, entropy, ENTROPY: tl.constexpr):
    undefined = (top == float("inf")) | (top == float("-inf")) | (s != s)
    log_sum = tl.log2(s)
    value = _LN_2 * (_above(x, top, scale) - log_sum)
    tl.store(logprob + row, tl.where(undefined, float("nan"), value))
    if ENTROPY:
        value = tl.maximum(_LN_2 * (log_sum - w / s), 0.0)
        tl.store(entropy + row, tl.where(undefined, float("nan"), value))


@triton.jit
def _write_top(row, keys, top, s, scale, top_logprob, top_token, TOP: tl.constexpr, PADDED: tl.constexpr):
    n = tl.arange(0, PADDED)
    undefined = (top == float("inf")) | (top == float("-inf")) | (s != s)
    value = _LN_2 * (_above(_unpack_value(keys), top, scale) - tl.log2(s))
    tl.store(top_logprob + row * TOP + n, tl.where(undefined, float("nan"), value), mask=n < TOP)
    tl.store(top_token + row * TOP + n, tl.where(undefined, -1, _unpack_token(keys)), mask=n < TOP)


@triton.jit
def logprob_chunk(
    logits,
    token,
    logprob,
    entropy,
    top_logprob,
    top_token,
    tops,
    sums,
    keys_out,
    vocab,
    chunk,
    scale,
    LANES: tl.constexpr,
    UNROLL: tl.constexpr,
    ENTROPY: tl.constexpr,
    TOP: tl.constexpr,
    PADDED: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """Reduce one chunk of one row; without SPLIT the chunk is the row and the outputs are written."""
    row = tl.program_id(0).to(tl.int64)
    piece = tl.program_id(1)
    start = piece * chunk
    stop = tl.minimum(start + chunk, vocab)
    base = logits + row * vocab
    offsets = tl.arange(0, UNROLL)[:, None] * LANES + tl.arange(0, LANES)[None, :]
    m = tl.full([LANES], float("-inf"), tl.float32)
    s = tl.zeros([LANES], tl.float32)
    w = tl.zeros([LANES], tl.float32)
    keys = tl.zeros([PADDED], tl.uint64)
    slots = tl.arange(0, PADDED)
    least = tl.full([], 0, tl.uint64)
    for at in range(start, stop, LANES * UNROLL):
        index = at + offsets
        x = tl.load(base + index, mask=index < stop, other=float("-inf")).to(tl.float32)
        # Maxima skip NaN; the sums keep it.
        new = tl.maximum(m, tl.max(x, axis=0))
        shift = _above(m, new, scale)
        y = _above(x, new[None, :], scale)
        e = tl.exp2(y)
        factor = tl.where(s == 0.0, 0.0, tl.exp2(shift))
        if ENTROPY:
            moved = tl.where(s == 0.0, 0.0, w + shift * s)
            w = moved * factor + tl.sum(tl.where(e == 0.0, 0.0, e * y), axis=0)
        s = s * factor + tl.sum(e, axis=0)
        m = new
        if TOP > 0:
            found = _pack(x, index)
            best = tl.max(found)
            # Seldom taken after the first tiles: the list then holds larger logits already.
            while best > least:
                keys = tl.where(slots == tl.argmin(keys, axis=0), best, keys)
                found = tl.where(found == best, 0, found)
                least = tl.min(keys)
                best = tl.max(found)
    if TOP > 0:
        keys = tl.sort(keys, descending=True)
    top = tl.max(m, axis=0)
    shift = tl.where(m == float("-inf"), 0.0, (m - top) * scale)
    factor = tl.exp2(shift)
    total_w = tl.sum(tl.where(s == 0.0, 0.0, (w + shift * s) * factor), axis=0)
    total_s = tl.sum(s * factor, axis=0)
    if SPLIT:
        place = row * tl.num_programs(1) + piece
        tl.store(tops + place, top)
        tl.store(sums + 2 * place, total_s)
        tl.store(sums + 2 * place + 1, total_w)
        if TOP > 0:
            tl.store(keys_out + place * PADDED + tl.arange(0, PADDED), keys)
    else:
        x_token = tl.load(base + tl.load(token + row)).to(tl.float32)
        _write_row(row, top, total_s, total_w, x_token, scale, logprob, entropy, ENTROPY)
        if TOP > 0:
            _write_top(row, keys, top, total_s, scale, top_logprob, top_token, TOP, PADDED)


@triton.jit
def logprob_merge(
    logits,
    token,
    logprob,
    entropy,
    top_logprob,
    top_token,
    tops,
    sums,
    keys_in,
    vocab,
    pieces,
    scale,
    PIECES: tl.constexpr,
    ENTROPY: tl.constexpr,
    TOP: tl.constexpr,
    PADDED: tl.constexpr,
):
    """Merge the chunks of one row; PIECES is the next power of two."""
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, PIECES)
    place = row * pieces + k
    inside = k < pieces
    m = tl.load(tops + place, mask=inside, other=float("-inf"))
    s = tl.load(sums + 2 * place, mask=inside, other=0.0)
    w = tl.load(sums + 2 * place + 1, mask=inside, other=0.0)
    top = tl.max(m, axis=0)
    shift = tl.where(m == float("-inf"), 0.0, (m - top) * scale)
    factor = tl.exp2(shift)
    total_w = tl.sum(tl.where(s == 0.0, 0.0, (w + shift * s) * factor), axis=0)
    total_s = tl.sum(s * factor, axis=0)
    x_token = tl.load(logits + row * vocab + tl.load(token + row)).to(tl.float32)
    _write_row(row, top, total_s, total_w, x_token, scale, logprob, entropy, ENTROPY)
    if TOP > 0:
        n = tl.arange(0, PIECES * PADDED)
        keys = tl.load(keys_in + row * pieces * PADDED + n, mask=n < pieces * PADDED, other=0)
        if PIECES > 1:
            keys = tl.topk(keys, PADDED)
        _write_top(row, keys, top, total_s, scale, top_logprob, top_token, TOP, PADDED)
