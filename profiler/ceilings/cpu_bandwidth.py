"""Memory bandwidth of the CPU: read, write, copy and triad with explicit vectors, over any working set.

Bytes are counted as in McCalpin's STREAM: what the kernel names, so a copy moves two bytes per byte copied and a triad
three, and the line that an ordinary store reads first is not counted. Streaming stores avoid that read; both compete.
Every thread goes over a part of its own, which it has touched first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit, prange, set_num_threads
from numba.core import types

from ...kernels import simd
from ...kernels.simd.vector_type import intrinsic
from .candidates import Candidate

LANES = simd.LANES
_STEP = 8 * LANES
# Parts are multiples of the longest stride of any kernel here (four streams), so that no kernel needs a remainder.
_GRAIN = 4 * _STEP
_BYTES = 4
_SCALE = np.float32(3.0)
ARRAYS = {"read": 1, "write": 1, "copy": 2, "triad": 3}
# The least bytes of one call: below, starting the threads would count.
_LEAST_CALL_BYTES = 64 << 20


@intrinsic
def _next_pass(typingctx: Any) -> Any:
    """Forbid the compiler to merge this pass with the next: another thread might look between them."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.fence("seq_cst", "singlethread")
        return context.get_dummy_value()

    return types.void(), generate


@cache
def _reader(streams: int, ahead: int) -> Callable[..., None]:
    """Return a sum over ``streams`` places at once, prefetching ``ahead`` elements (none if 0)."""

    @njit(parallel=True)
    def read(a: Any, part: int, passes: int, sink: Any) -> None:
        for task in prange(sink.shape[0]):
            start = task * part
            piece = part // streams
            s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = simd.full(0.0, np.float32)
            for _ in range(passes):
                _next_pass()
                for offset in range(0, piece, _STEP):
                    for stream in range(streams):
                        i = start + stream * piece + offset
                        if ahead:
                            for line in range(0, _STEP, 16):
                                simd.prefetch(a, i + ahead + line)
                        s0 = s0 + simd.load(a, i)
                        s1 = s1 + simd.load(a, i + LANES)
                        s2 = s2 + simd.load(a, i + 2 * LANES)
                        s3 = s3 + simd.load(a, i + 3 * LANES)
                        s4 = s4 + simd.load(a, i + 4 * LANES)
                        s5 = s5 + simd.load(a, i + 5 * LANES)
                        s6 = s6 + simd.load(a, i + 6 * LANES)
                        s7 = s7 + simd.load(a, i + 7 * LANES)
            sink[task, 0] = simd.sum_lanes(((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)))

    return read


@cache
def _writer(access: str, streaming: bool, streams: int) -> Callable[..., None]:
    """Return ``c = scale`` (write), ``c = a`` (copy) or ``c = a + scale * b`` (triad)."""
    is_write, is_copy = access == "write", access == "copy"
    put = simd.store_streaming if streaming else simd.store

    @njit(parallel=True)
    def write(c: Any, a: Any, b: Any, part: int, passes: int, sink: Any) -> None:
        for task in prange(sink.shape[0]):
            start = task * part
            piece = part // streams
            for _ in range(passes):
                _next_pass()
                for offset in range(0, piece, _STEP):
                    for stream in range(streams):
                        base = start + stream * piece + offset
                        for i in range(base, base + _STEP, LANES):
                            if is_write:
                                put(c, i, simd.full(_SCALE, np.float32))
                            elif is_copy:
                                put(c, i, simd.load(a, i))
                            else:
                                put(c, i, simd.fma(simd.load(b, i), _SCALE, simd.load(a, i)))

    return write


class Buffers:
    """Arrays for a number of threads whose parts together hold at most the given bytes."""

    def __init__(self, access: str, total_bytes: int, threads: int) -> None:
        self.access, self.threads = access, threads
        count = ARRAYS[access]
        self.part = max(1, total_bytes // (_BYTES * count * threads * _GRAIN)) * _GRAIN
        self.arrays = [simd.aligned_empty(self.part * threads, np.float32) for _ in range(count)]
        # One row per thread and a cache line apart, so that threads do not share a line.
        self.sink = np.zeros((threads, 32), dtype=np.float32)
        touch = _writer("write", False, 1)
        set_num_threads(threads)
        for array in self.arrays:
            touch(array, array, array, self.part, 1, self.sink)

    @property
    def total_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays)

    def candidate(self, kernel: Callable[..., None], label: str) -> Candidate:
        """Return a kernel over these buffers, with enough passes that starting the threads does not count."""
        passes = _passes(self.total_bytes, self.threads)
        if self.access == "read":
            arguments = (self.arrays[0], self.part, passes, self.sink)
        else:
            first, *others = self.arrays
            a = others[0] if others else first
            arguments = (first, a, others[-1] if others else first, self.part, passes, self.sink)
        return self._candidate(kernel, arguments, label, self.total_bytes, passes)

    def read_within(self, total_bytes: int) -> Candidate:
        """Return the plain sum over the beginning of the array, of at most the given bytes over all threads."""
        part = min(self.part, max(1, total_bytes // (_BYTES * self.threads * _GRAIN)) * _GRAIN)
        size = part * _BYTES * self.threads
        passes = _passes(size, self.threads)
        arguments = (self.arrays[0], part, passes, self.sink)
        return self._candidate(_reader(1, 0), arguments, "sweep", size, passes)

    def _candidate(
        self, kernel: Callable[..., None], arguments: tuple[Any, ...], label: str, size: int, passes: int
    ) -> Candidate:
        threads = self.threads

        def run() -> None:
            set_num_threads(threads)
            kernel(*arguments)

        return Candidate(label, run, float(size * passes), size)


def _passes(size: int, threads: int) -> int:
    return max(1, -(-_LEAST_CALL_BYTES * threads // size))


def bandwidth_candidates(access: str, total_bytes: int, threads: int, *, in_cache: bool) -> list[Candidate]:
    """Return the competing kernels of an access over a working set.

    Parameters
    ----------
    access
        ``read``, ``write``, ``copy`` or ``triad``.
    total_bytes
        Bytes of all arrays and threads together.
    in_cache
        Whether the set fits a cache: streaming stores and prefetching would only hurt.
    """
    return variants(Buffers(access, total_bytes, threads), in_cache=in_cache)


def variants(buffers: Buffers, *, in_cache: bool) -> list[Candidate]:
    """Return the competing kernels over given buffers (see `bandwidth_candidates`)."""
    access = buffers.access
    width = f"{LANES * 32}-bit vectors"
    if access == "read":
        shapes = [(1, 0)] if in_cache else [(1, 0), (2, 0), (2, 512)]
        return [
            buffers.candidate(_reader(streams, ahead), _read_label(streams, ahead, width)) for streams, ahead in shapes
        ]
    plain = buffers.candidate(_writer(access, False, 1), f"Numba {access}, {width}; {_counting(access)}")
    if in_cache:
        return [plain]
    streaming = [
        buffers.candidate(
            _writer(access, True, streams),
            f"Numba {access}, {width}, streaming stores, {streams} place(s) at once; {_counting(access)}",
        )
        for streams in ((1,) if access == "write" else (1, 4))
    ]
    return [plain, *streaming]


def _read_label(streams: int, ahead: int, width: str) -> str:
    prefetch = f", prefetch {ahead * _BYTES} bytes ahead" if ahead else ""
    return f"Numba sum, {width}, {streams} place(s) at once per thread{prefetch}; {_counting('read')}"


def _counting(access: str) -> str:
    return f"{ARRAYS[access]} x bytes of an array"
