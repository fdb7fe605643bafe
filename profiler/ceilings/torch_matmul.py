"""Matrix product rates through torch, on CPU and GPU: the libraries' best, over several sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...kernels.contract import UnsupportedError
from ..devices import Device
from .candidates import Candidate

# A call should last no longer than this, so that several fit a budget.
_LONGEST_CALL_S = 0.15
_PROBE = 256
_SIZES = {"cpu": (512, 1024, 2048, 4096), "cuda": (4096, 8192, 16384)}
_COMPETITORS = 3
PRECISIONS = ("fp32", "bf16", "fp16", "int8", "fp8")


def matmul_candidates(precision: str, device: Device, threads: int) -> list[Candidate]:
    """Return square products in a precision, 2 n**3 operations each, of the largest sizes that the time allows.

    Raises
    ------
    UnsupportedError
        If torch is missing or has no such product on the device; the message says which.
    """
    try:
        import torch
    except ImportError:
        raise UnsupportedError(f"torch is not installed, so matrix.{precision} was not measured") from None
    kind = device.name.partition(":")[0]
    if kind == "cpu":
        torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
    try:
        sizes = _affordable(torch, precision, device, _SIZES[kind])
        return [_candidate(torch, precision, device, size) for size in sizes]
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise UnsupportedError(
            f"torch {torch.__version__} has no {precision} product on {device.name}: {reason}"
        ) from error


def _affordable(torch: Any, precision: str, device: Device, sizes: tuple[int, ...]) -> list[int]:
    """Return the largest sizes whose call is short enough, judged by a small product (some precisions are emulated)."""
    run = _product(torch, precision, device.name, _PROBE)
    run()
    device.synchronise()
    sample = device.sampler((run,))
    seconds = min(sample().device_s for _ in range(10))
    fits = [size for size in sizes if seconds * (size / _PROBE) ** 3 <= _LONGEST_CALL_S]
    return fits[-_COMPETITORS:] or [_PROBE]


def _candidate(torch: Any, precision: str, device: Device, size: int) -> Candidate:
    label = f"torch {torch.__version__} {precision} product of {size} x {size} matrices; 2 n^3 operations"
    return Candidate(label, _product(torch, precision, device.name, size), 2.0 * size**3, None)


def _product(torch: Any, precision: str, device: str, size: int) -> Callable[[], object]:
    """Return a product of random matrices; the second one is stored transposed, as the weights of a layer are."""
    generator = torch.Generator(device=device).manual_seed(0)
    if precision == "int8":
        a, b = (
            torch.randint(-127, 128, (size, size), dtype=torch.int8, device=device, generator=generator) for _ in "ab"
        )
        return lambda: torch._int_mm(a, b.t())
    x, y = (torch.randn(size, size, device=device, generator=generator) / math.sqrt(size) for _ in "xy")
    if precision == "fp8":
        return _fp8_product(torch, x, y)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    x, y = x.to(dtype), y.to(dtype)
    out = torch.empty(size, size, dtype=dtype, device=device)
    return lambda: torch.mm(x, y.t(), out=out)


def _fp8_product(torch: Any, x: Any, y: Any) -> Callable[[], object]:
    if x.device.type == "cpu":
        raise UnsupportedError("fp8 products are measured on GPUs only: CPUs emulate them")
    one = torch.ones((), device=x.device)
    a, b = x.to(torch.float8_e4m3fn), y.to(torch.float8_e4m3fn)
    return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
