"""The GPUs whose measured tables the package carries, and their hardware profiles."""

from __future__ import annotations

import difflib
from dataclasses import dataclass


class UnknownGpuError(LookupError):
    """A GPU without measured tables; the message names those that have some."""


@dataclass(frozen=True)
class SiliconGpu:
    """One GPU of the tables.

    Parameters
    ----------
    name
        Short name: ``h200``.
    folder
        Its folder in the package.
    profile
        Name of its hardware profile.
    family
        GPUs of one family share a design, so that none of them may calibrate what is projected onto another.
    """

    name: str
    folder: str
    profile: str
    family: str


# RTX PRO 6000 was measured on a part with 1.792 TB/s, which is the workstation's figure, not the server's 1.6 TB/s.
_GPUS = (
    SiliconGpu("a100", "a100_sxm", "a100-sxm-80gb", "ampere"),
    SiliconGpu("l40s", "l40s", "l40s", "ada"),
    SiliconGpu("h100", "h100_sxm", "h100-sxm", "hopper"),
    SiliconGpu("h200", "h200_sxm", "h200-sxm", "hopper"),
    SiliconGpu("rtx-pro-6000", "rtx_pro_6000_server", "rtx-pro-6000-workstation", "rtx_blackwell"),
    SiliconGpu("b200", "b200_sxm", "b200-hgx", "blackwell"),
    SiliconGpu("b300", "b300_sxm", "b300-hgx", "blackwell"),
    SiliconGpu("gb200", "gb200", "gb200", "blackwell"),
    SiliconGpu("gb300", "gb300", "gb300", "blackwell"),
)
_ALIASES = {gpu.folder: gpu.name for gpu in _GPUS} | {gpu.profile: gpu.name for gpu in _GPUS}


def gpu_names() -> list[str]:
    """Return the short names, oldest architecture first."""
    return [gpu.name for gpu in _GPUS]


def silicon_gpu(name: str) -> SiliconGpu:
    """Return a GPU by its short name, its profile's or its folder's.

    Raises
    ------
    UnknownGpuError
        If no tables are known for it.
    """
    wanted = name.strip().lower().replace(" ", "-").removeprefix("silicon:")
    wanted = _ALIASES.get(wanted, wanted)
    for gpu in _GPUS:
        if gpu.name == wanted:
            return gpu
    near = difflib.get_close_matches(wanted, gpu_names(), n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are tables of {', '.join(gpu_names())}"
    raise UnknownGpuError(f"no measured tables of {name!r}; {hint}")
