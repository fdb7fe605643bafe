"""What a device's ceilings should be by its specification, beside what was measured.

The specification is the hardware profile that the device is recognised as, in the device's state (cores that may be
used, clock and power limits, MIG slice). Where no profile is recognised, a CPU whose multiply-add pipes are known has
one specified figure left: clock x pipes x lanes x 2.

A row's flag ``disagrees`` is raised below `LEAST_SHARE` of the least specified figure and above `MOST_SHARE` of the
greatest. The best kernels reach 70 to 95 % of what is specified, so less means a limit that the profile does not know
(a shared socket, a cap, a wrong profile) or a kernel that is too weak to be a ceiling; clock readings and rounded
figures explain a few per cent above, not more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...hwprofiles.figure import Figure
from ...hwprofiles.identity import Identification, identify_cpu, identify_gpu
from ..live_gpu import observe_gpu
from ..live_identity import observed_cpu
from ..machine import Machine
from ..schema import CeilingRow

LEAST_SHARE = 0.7
MOST_SHARE = 1.05


@dataclass(frozen=True)
class Specification:
    """The specified ceilings of one device by name, who says so, and why there are none if there are none."""

    figures: Mapping[str, Figure] = field(default_factory=dict)
    source: str = ""
    missing: str = ""


def specification_of(device: str, machine: Machine) -> Specification:
    """Return the specified ceilings of ``cpu`` or ``cuda:<number>``; on a device that is not known, why not."""
    found = identify_cpu(observed_cpu(machine)) if device == "cpu" else _identify_cuda(device)
    if found is None:
        return Specification(missing="NVML does not show this device, so no profile was looked for")
    if found.profile is None:
        return Specification(missing="; ".join(found.words))
    words = "".join(f"; {word}" for word in found.words)
    return Specification(
        found.ceilings(), f"profile {found.profile.name}", f"not in profile {found.profile.name}{words}"
    )


def _identify_cuda(device: str) -> Identification | None:
    from ..nvml_probe import cuda_uuid

    try:
        observed = observe_gpu(cuda_uuid(int(device.partition(":")[2] or 0)))
    except (AttributeError, RuntimeError, ImportError):  # Builds of torch that do not tell the UUID, such as ROCm's.
        return None
    return None if observed is None else identify_gpu(observed)


def beside_specified(
    row: CeilingRow, specification: Specification, peak: tuple[float, str] | None = None
) -> CeilingRow:
    """Return a row with the specified figure beside the measured one, and the flag.

    Parameters
    ----------
    peak
        Theoretical rate and where it comes from; used where the specification has no figure of this name.
    """
    figure = specification.figures.get(row.name)
    if figure is not None and figure.unit == row.unit:
        note = f"; {figure.note}" if figure.note else ""
        source = f"{specification.source} ({figure.source}, confidence {figure.confidence}){note}"
        return row.model_copy(update=_judged(row, figure.value, figure.low, figure.high, source))
    if peak is not None:
        return row.model_copy(update=_judged(row, peak[0], peak[0], peak[0], peak[1]))
    return row.model_copy(update={"specified_source": f"none: {specification.missing}"})


def _judged(row: CeilingRow, value: float, low: float, high: float, source: str) -> dict[str, Any]:
    measured = row.value if row.status == "ok" else None
    disagrees = None if measured is None else not LEAST_SHARE * low <= measured <= MOST_SHARE * high
    return {
        "specified": value,
        "specified_low": low,
        "specified_high": high,
        "specified_source": source,
        "disagrees": disagrees,
    }
