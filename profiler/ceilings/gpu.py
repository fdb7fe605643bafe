"""Memory bandwidth of a GPU through torch's own elementwise kernels and reductions.

Bytes are counted as for the CPU (see `cpu_bandwidth`).
"""

from __future__ import annotations

from typing import Any

from ...kernels.contract import UnsupportedError
from ..devices import Device
from .candidates import Candidate

# At HBM speed this takes about a quarter of a millisecond: long beside a launch, short beside the budget.
_LEAST_BYTES = 1 << 30
_CACHE_FACTOR = 8
_MEMORY_SHARE = 0.2


def gpu_bandwidth_candidates(access: str, device: Device) -> list[Candidate]:
    """Return torch kernels of an access (``read``, ``write``, ``copy``, ``triad``) over main memory.

    Raises
    ------
    UnsupportedError
        If torch is missing.
    """
    try:
        import torch
    except ImportError:
        raise UnsupportedError("torch is not installed, so the GPU's bandwidth was not measured") from None
    free, _ = torch.cuda.mem_get_info(device.name)
    size = min(max(_LEAST_BYTES, _CACHE_FACTOR * device.cache_bytes), int(free * _MEMORY_SHARE)) // 4096 * 4096
    return _candidates(torch, access, device.name, size)


def _candidates(torch: Any, access: str, device: str, size: int) -> list[Candidate]:
    a, b, c = (torch.ones(size // 4, dtype=torch.float32, device=device) for _ in range(3))
    if access == "read":
        whole = a.view(torch.int32)
        total, most = torch.empty((), device=device), torch.empty((), dtype=torch.int32, device=device)
        return [
            Candidate("torch sum of fp32; bytes of the array", lambda: torch.sum(a, dim=0, out=total), size, size),
            Candidate(
                "torch maximum of int32; bytes of the array", lambda: torch.amax(whole, dim=0, out=most), size, size
            ),
            Candidate(
                "torch dot of fp32 arrays; bytes of both", lambda: torch.dot(a, b, out=total), 2.0 * size, 2 * size
            ),
        ]
    if access == "write":
        return [
            Candidate("torch fill of fp32; bytes of the array", lambda: c.fill_(3.0), size, size),
            Candidate("torch zero (memset); bytes of the array", c.zero_, size, size),
        ]
    if access == "copy":
        return [Candidate("torch copy of fp32; 2 x bytes of an array", lambda: c.copy_(a), 2.0 * size, 2 * size)]
    triad = "torch a + 3 b of fp32; 3 x bytes of an array"
    return [Candidate(triad, lambda: torch.add(a, b, alpha=3.0, out=c), 3.0 * size, 3 * size)]
