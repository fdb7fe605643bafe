"""A small operator and implementations of every kind of good and bad behaviour, loaded as a user's plugin."""

import mmap
import os
import sys
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from roofcast.kernels import (
    Arrays,
    Cost,
    Inputs,
    Operator,
    Prepared,
    UnsupportedError,
    Workload,
    implementation,
    register_operator,
    require,
)
from roofcast.kernels.precision import compare_floats

NAME = "toy.scale"


@dataclass(frozen=True)
class Scale(Workload):
    """Multiply ``n`` floats by two; ``marker`` is a file that some implementations write or look for."""

    operator: ClassVar[str] = NAME
    n: int = 20_000
    marker: str = ""

    def __post_init__(self) -> None:
        require(self.n >= 1, "n", self.n, "give at least 1")


def _make_inputs(workload: Scale, seed: int) -> Inputs:
    x = np.random.default_rng(seed).standard_normal(workload.n).astype(np.float32)
    return Inputs(workload, seed, {"x": x})


def _reference(inputs: Inputs) -> Arrays:
    return {"y": 2.0 * inputs.arrays["x"].astype(np.float64)}


OPERATOR = register_operator(
    Operator(
        name=NAME,
        summary="Multiply by two.",
        phases=("rollout",),
        workload_type=Scale,
        cost=lambda w: Cost(
            flops={"vector.fp32": w.n}, read_bytes={"dram": 4.0 * w.n}, write_bytes={"dram": 4.0 * w.n}
        ),
        make_inputs=_make_inputs,
        reference=_reference,
        compare=lambda output, expected, inputs: compare_floats(output, expected, 1e-6),
    )
)


def _register(name, body, *, baseline=False):
    """Register an implementation whose run() is ``body(x, y, state)`` for a dict that lasts as long as it."""

    def prepare(inputs: Inputs, device: str) -> Prepared:
        x = inputs.arrays["x"]
        y = np.empty_like(x)
        state = {"calls": 0, "workload": inputs.workload}

        def run() -> None:
            state["calls"] += 1
            body(x, y, state)

        return Prepared(run, lambda: {"y": y})

    prepare.__qualname__ = f"prepare_{name}"
    implementation(NAME, backend="user", devices=("cpu",), name=name, baseline=baseline)(prepare)


def _double(x, y, state):
    np.multiply(x, np.float32(2), out=y)


def _twice(x, y, state):
    _double(x, y, state)
    _double(x, y, state)


def _wrong(x, y, state):
    np.multiply(x, np.float32(3), out=y)


def _nan(x, y, state):
    y.fill(np.nan)


def _raises(x, y, state):
    raise RuntimeError("the kernel does not like this")


def _memory(x, y, state):
    raise MemoryError("no room for 1 TB")


def _once(x, y, state):
    if state["calls"] == 1:
        _double(x, y, state)


def _late(x, y, state):
    _double(x, y, state)
    if state["calls"] > 40:
        y[7] += 1


def _spoils(x, y, state):
    _double(x, y, state)
    x[3] = 0.0


_ANSWERS: dict[int, np.ndarray] = {}


def _cached(x, y, state):
    y[:] = _ANSWERS.setdefault(len(x), 2 * x)


def _interrupt(x, y, state):
    if state["calls"] > 30:
        raise KeyboardInterrupt
    _double(x, y, state)


def _exits(x, y, state):
    os._exit(3)


def _segfaults(x, y, state):
    import ctypes

    ctypes.string_at(0)


def _hangs(x, y, state):
    time.sleep(600)


def _hog(x, y, state):
    state["hog"] = [np.ones(16 << 20) for _ in range(64)]


def _hog_shared(x, y, state):
    """Take shared memory, which the limit on a process's data does not see."""
    pages = state["hog"] = mmap.mmap(-1, 4 << 30)
    for start in range(0, len(pages), 1 << 20):
        pages[start : start + (1 << 20)] = b"x" * (1 << 20)


def _quits(x, y, state):
    sys.exit(0)


def _noisy(x, y, state):
    os.write(1, b"noise on standard output\n" * 100)
    os.write(2, b"noise on standard error\n" * 100)
    sys.stdout.write("more noise\n")
    _double(x, y, state)


def _forks(x, y, state):
    if state["calls"] == 2:
        os.fork()  # The child goes on in the engine's code, as a careless library's would.
    _double(x, y, state)


def _slow(x, y, state):
    time.sleep(0.002)
    _double(x, y, state)


_register("double", _double)
_register("twice", _twice, baseline=True)
for _body in (
    _wrong, _nan, _raises, _memory, _once, _late, _spoils, _cached, _interrupt, _exits, _hangs, _segfaults, _hog,
    _hog_shared, _quits, _noisy, _forks, _slow,
):  # fmt: skip
    _register(_body.__name__.strip("_"), _body)


@implementation(NAME, backend="user", devices=("cpu",), name="unsupported")
def prepare_unsupported(inputs: Inputs, device: str) -> Prepared:
    raise UnsupportedError("only even n; choose another")


@implementation(NAME, backend="user", devices=("cpu",), name="missing")
def prepare_missing(inputs: Inputs, device: str) -> Prepared:
    import a_package_that_is_not_there  # noqa: F401

    raise AssertionError
