"""Philox 4x32-10: the published answers, and the same numbers on every backend."""

import numpy as np
import pytest
import scipy.stats
from numba import njit
from roofcast.kernels.sampling import philox, philox_numba

# Known answers of the authors' Random123 library (file kat_vectors, philox4x32 with 10 rounds).
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(counter: list[int], key: list[int], words: list[int]) -> None:
    assert philox.philox_4x32(counter, key).tolist() == words


def test_numba_gives_the_same_words() -> None:
    @njit
    def fill(out, seeds, offsets):
        for i in range(offsets.size):
            out[i, 0], out[i, 1], out[i, 2], out[i, 3] = philox_numba.random_words(seeds[i], offsets[i])

    rng = np.random.default_rng(0)
    seeds = rng.integers(0, 2**63, 200, dtype=np.uint64)
    offsets = rng.integers(0, 2**32, 200, dtype=np.uint64)
    out = np.zeros((200, 4), np.uint64)
    fill(out, seeds, offsets)
    np.testing.assert_array_equal(out, philox.random_words(seeds, offsets))


def test_triton_gives_the_same_words() -> None:
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def fill(out, seed, n: tl.constexpr):
        offsets = tl.arange(0, n)
        a, b, c, d = tl.randint4x(seed, offsets)
        tl.store(out + offsets * 4, a)
        tl.store(out + offsets * 4 + 1, b)
        tl.store(out + offsets * 4 + 2, c)
        tl.store(out + offsets * 4 + 3, d)

    seed = 0x123456789ABCDEF
    out = torch.zeros((64, 4), dtype=torch.int32)
    fill[(1,)](out, seed, 64)
    np.testing.assert_array_equal(out.numpy().view(np.uint32), philox.random_words(seed, np.arange(64)))


def test_uniforms_are_uniform_and_never_0_or_1() -> None:
    ends = philox.to_uniform(np.array([0, 2**32 - 1], np.uint32))
    assert 0 < ends[0] < ends[1] < 1
    uniform = philox.to_uniform(philox.random_words(7, np.arange(50_000))).ravel()
    assert scipy.stats.kstest(uniform, "uniform").pvalue > 1e-3
    # Neighbouring offsets and seeds are as good as unrelated.
    assert abs(np.corrcoef(uniform[:-4], uniform[4:])[0, 1]) < 0.01
    other = philox.to_uniform(philox.random_words(8, np.arange(50_000))).ravel()
    assert abs(np.corrcoef(uniform, other)[0, 1]) < 0.01
