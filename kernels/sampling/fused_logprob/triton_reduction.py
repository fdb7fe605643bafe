"""The Triton kernels of sampling.fused_logprob: reduce tiles of logits, merge, and turn them into their gradient."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportGeneralTypeIssues=false, reportCallIssue=false
# pyright: reportAttributeAccessIssue=false

import triton
import triton.language as tl

from ...triton_support import is_interpreting

# Triton's interpreter holds bf16 as integers and multiplies those.
_WIDEN = tl.constexpr(is_interpreting())
_LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _logits(
    hidden, weight, row, column, rows, vocab, width,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr
):  # fmt: skip
    """Logits of rows ``row [BM]`` and tokens ``column [BN]``; 0 outside."""
    k = tl.arange(0, BK)
    a = hidden + row.to(tl.int64)[:, None] * width + k[None, :]
    b = weight + column.to(tl.int64)[None, :] * width + k[:, None]
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(0, width, BK):
        inside = start + k < width
        x = tl.load(a + start, mask=(row < rows)[:, None] & inside[None, :], other=0.0)
        y = tl.load(b + start, mask=(column < vocab)[None, :] & inside[:, None], other=0.0)
        if _WIDEN:
            x, y = x.to(tl.float32), y.to(tl.float32)
        acc = tl.dot(x, y, acc, input_precision=PRECISION)
    return acc


@triton.jit
def reduce_logits(
    hidden, weight, token, tops, totals, chosen, rows, vocab, width, scale, span,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr
):  # fmt: skip
    """Reduce ``span`` tokens of a block of rows to maximum, sum of powers of two and the chosen token's logit."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    piece = tl.program_id(1)
    wanted = tl.load(token + row, mask=row < rows, other=-1)
    m = tl.full([BM], float("-inf"), tl.float32)
    s = tl.zeros([BM], tl.float32)
    picked = tl.zeros([BM], tl.float32)
    for at in range(piece * span, tl.minimum((piece + 1) * span, vocab), BN):
        column = at + tl.arange(0, BN)
        x = _logits(hidden, weight, row, column, rows, vocab, width, BM, BN, BK, PRECISION) * scale
        picked += tl.sum(tl.where(column[None, :] == wanted[:, None], x, 0.0), axis=1)
        x = tl.where((column < vocab)[None, :], x, float("-inf"))
        new = tl.maximum(m, tl.max(x, axis=1))
        s = s * tl.exp2(m - new) + tl.sum(tl.exp2(x - new[:, None]), axis=1)
        m = new
    place = piece.to(tl.int64) * rows + row
    tl.store(tops + place, m, mask=row < rows)
    tl.store(totals + place, s, mask=row < rows)
    tl.store(chosen + place, picked, mask=row < rows)


@triton.jit
def merge_pieces(tops, totals, chosen, logprob, log_sum, rows, pieces, PIECES: tl.constexpr):
    """Merge the pieces of a row; ``log_sum`` is to base 2."""
    row = tl.program_id(0)
    piece = tl.arange(0, PIECES)
    inside = piece < pieces
    place = piece.to(tl.int64) * rows + row
    m = tl.load(tops + place, mask=inside, other=float("-inf"))
    top = tl.max(m, axis=0)
    s = tl.load(totals + place, mask=inside, other=0.0)
    total = top + tl.log2(tl.sum(tl.where(inside, s * tl.exp2(m - top), 0.0), axis=0))
    x = tl.sum(tl.load(chosen + place, mask=inside, other=0.0), axis=0)
    tl.store(logprob + row, (x - total) * _LN_2)
    tl.store(log_sum + row, total)


@triton.jit
def logits_gradient(
    hidden, weight, token, log_sum, factor, out, rows, vocab, width, scale, first, count,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr
):  # fmt: skip
    """Write the gradient of the logits of a block of rows and of tokens from ``first`` on to ``out[rows, count]``."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    within = tl.program_id(1) * BN + tl.arange(0, BN)
    column = first + within
    x = _logits(hidden, weight, row, column, rows, vocab, width, BM, BN, BK, PRECISION) * scale
    wanted = tl.load(token + row, mask=row < rows, other=-1)
    p = tl.exp2(x - tl.load(log_sum + row, mask=row < rows, other=0.0)[:, None])
    hit = (column[None, :] == wanted[:, None]).to(tl.float32)
    g = (hit - p) * tl.load(factor + row, mask=row < rows, other=0.0)[:, None]
    place = out + row.to(tl.int64)[:, None] * count + within[None, :]
    tl.store(place, g.to(out.dtype.element_ty), mask=(row < rows)[:, None] & (within < count)[None, :])
