"""Which profile a live device has, and what of it holds in the state it is in.

A GPU is matched by the name its driver reports and then by SM count, memory size and bus width, never by its die: the
same die is sold with different memory, clocks and numbers of SMs. What does not match in all is ``unknown``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from .catalogue import load, names
from .figure import Figure
from .profile import DeviceProfile

_PROBE = "measure this device with 'roofcast hw probe'"
# Below these fractions of the specified power or clock a limit was set; above, it is rounding or a tolerance.
_POWER_CAP = 0.97
_CLOCK_CAP = 0.97


@dataclass(frozen=True)
class ObservedGpu:
    """What a driver says of one GPU or MIG slice. None where it does not say.

    ``sms`` and ``memory_mib`` are those of the slice if ``mig_slices`` is given: compute slices of 7 and memory
    slices of 8.
    """

    name: str
    uuid: str = ""
    sms: int | None = None
    memory_mib: int | None = None
    bus_bits: int | None = None
    compute_capability: tuple[int, int] | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    clock_limit_hz: float | None = None
    clock_max_hz: float | None = None
    mig_slices: tuple[int, int] | None = None

    def seen(self) -> str:
        """Return what was seen, in one line."""
        parts = [
            f"name {self.name!r}",
            f"{self.sms} SMs" if self.sms else "",
            f"{self.memory_mib} MiB" if self.memory_mib else "",
            f"{self.bus_bits} bit bus" if self.bus_bits else "",
            "compute capability {}.{}".format(*self.compute_capability) if self.compute_capability else "",
            "MIG slice {} of 7 compute, {} of 8 memory".format(*self.mig_slices) if self.mig_slices else "",
        ]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class ObservedCpu:
    """What the operating system says of the CPU.

    Parameters
    ----------
    name
        As in ``/proc/cpuinfo``.
    cores
        Physical cores of all sockets that the machine has.
    usable_cores
        Cores this process may use: the least of affinity and cgroup quota, so it may be a fraction.
    sockets
        Populated sockets; None to tell from the number of cores.
    performance_cores
        Of a hybrid CPU, the usable cores of the fast kind; None if all are alike.
    """

    name: str
    cores: int
    usable_cores: float
    sockets: int | None = None
    performance_cores: int | None = None


@dataclass(frozen=True)
class Identification:
    """The outcome: the profile (None if unknown), what was seen, and what the state of the device does to it."""

    status: Literal["match", "unknown"]
    seen: str
    profile: DeviceProfile | None = None
    words: tuple[str, ...] = ()
    scale: dict[str, float] = field(default_factory=dict)

    def ceilings(self) -> dict[str, Figure]:
        """Return the profile's ceilings as they hold in the device's state; empty if it is unknown.

        A slice or a lower clock scales rates; a power cap widens them downwards, because how much of the peak is
        left depends on the work.
        """
        if self.profile is None:
            return {}
        word = "; ".join(self.words)
        found = {name: self._adjust(name, figure, word) for name, figure in self.profile.ceilings().items()}
        return {name: figure for name, figure in found.items() if figure.value > 0}

    def _adjust(self, name: str, figure: Figure, word: str) -> Figure:
        kind = "link" if name.startswith("link.") else "memory" if name.endswith(_ACCESSES) else "rate"
        factor = self.scale.get(kind, 1.0)
        if factor != 1.0:
            figure = figure.scaled(factor, word)
        if kind == "rate" and "power" in self.scale:
            figure = replace(figure, low=figure.low * self.scale["power"], confidence="low")
        return figure


_ACCESSES = (".read", ".write", ".copy", ".triad")


def identify_gpu(observed: ObservedGpu, candidates: Iterable[DeviceProfile] | None = None) -> Identification:
    """Match a live GPU with the profiles (default: all GPUs that are found)."""
    known = _devices("gpu") if candidates is None else list(candidates)
    whole = observed.mig_slices is None
    name = re.sub(r"\s+MIG\s.*", "", observed.name).strip()
    named = [p for p in known if p.match and any(re.fullmatch(pattern, name) for pattern in p.match["names"])]
    reasons = {p.name: _mismatch(p, observed, whole) for p in named}
    fitting = [p for p in named if not reasons[p.name]]
    if len(fitting) == 1:
        words, scale = _state(fitting[0], observed)
        return Identification("match", observed.seen(), fitting[0], tuple(words), scale)
    if len(fitting) > 1:
        word = f"several profiles fit ({', '.join(p.name for p in fitting)}), so none is used; {_PROBE}"
    elif named:
        word = "; ".join(f"not {name}: {reason}" for name, reason in reasons.items()) + f"; {_PROBE}"
    else:
        alike = [p.name for p in known if p.match and "sms" in p.match and not _mismatch(p, observed, whole)]
        alike = alike if observed.sms else []
        hint = f"; SMs, memory and bus are those of {' or '.join(alike)}, which is no proof" if alike else ""
        word = f"no profile has this name{hint}; {_PROBE}"
    return Identification("unknown", observed.seen(), words=(word,))


def _mismatch(profile: DeviceProfile, observed: ObservedGpu, whole: bool) -> str:
    """Return why a profile is not that of the device, or nothing."""
    match = profile.match or {}
    if observed.compute_capability and (profile.compile_target or "").startswith("sm_"):
        major, minor = observed.compute_capability
        if profile.compile_target != f"sm_{major}{minor}":
            return f"compute capability {major}.{minor}, the profile is for {profile.compile_target}"
    if observed.bus_bits and "bus_bits" in match and observed.bus_bits not in match["bus_bits"]:
        return f"bus of {observed.bus_bits} bit, the profile has {_either(match['bus_bits'])}"
    if not whole:
        return ""
    if observed.sms and "sms" in match and observed.sms not in match["sms"]:
        return f"{observed.sms} SMs, the profile has {_either(match['sms'])}"
    if observed.memory_mib and "memory_mib" in match:
        low, high = match["memory_mib"]
        if not low <= observed.memory_mib <= high:
            return f"{observed.memory_mib} MiB, the profile has {low} to {high}"
    return ""


def _either(values: Iterable[object]) -> str:
    return " or ".join(str(value) for value in values)


def _state(profile: DeviceProfile, observed: ObservedGpu) -> tuple[list[str], dict[str, float]]:
    words: list[str] = []
    scale: dict[str, float] = {}
    figures, power = profile.figures(), profile.power()
    sms = figures.get("compute.sms")
    if observed.mig_slices is not None:
        compute, memory = observed.mig_slices
        rate = observed.sms / sms.value if observed.sms and sms else compute / 7
        scale |= {"rate": rate, "memory": memory / 8, "link": 0.0}
        words.append(f"MIG slice: rates are scaled to {rate:.0%}, memory and cache to {memory}/8; no link between GPUs")
    elif observed.sms and sms and observed.sms != sms.value:
        scale["rate"] = observed.sms / sms.value
        words.append(
            f"{observed.sms} SMs here and {sms.value:g} in the profile: rates are scaled to {scale['rate']:.1%}"
        )
    if observed.clock_limit_hz and observed.clock_max_hz:
        clock = observed.clock_limit_hz / observed.clock_max_hz
        if clock < _CLOCK_CAP:
            scale["rate"] = scale.get("rate", 1.0) * clock
            words.append(f"clock limited to {observed.clock_limit_hz / 1e6:.0f} MHz: rates are scaled to {clock:.0%}")
    reference = observed.power_default_w or (power["tdp"].value if "tdp" in power else None)
    if observed.power_limit_w and reference:
        cap = observed.power_limit_w / reference
        if cap < _POWER_CAP:
            scale["power"] = cap
            words.append(
                f"power limited to {observed.power_limit_w:.0f} of {reference:.0f} W: specified rates are not reached "
                f"under load; their lower end is scaled to {cap:.0%}"
            )
    return words, scale


def identify_cpu(observed: ObservedCpu, candidates: Iterable[DeviceProfile] | None = None) -> Identification:
    """Match a live CPU with the profiles and scale its rates to the cores that this process may use."""
    known = _devices("cpu") if candidates is None else list(candidates)
    seen = f"name {observed.name!r}, {observed.cores} cores, {observed.usable_cores:g} usable"
    clean = " ".join(observed.name.split())
    named = [p for p in known if p.match and any(re.fullmatch(pattern, clean) for pattern in p.match["names"])]
    if len(named) > 1:
        named = [p for p in named if p.match and observed.cores in p.match.get("cores", ())] or named
    if len(named) != 1:
        word = "no profile has this name" if not named else f"several profiles fit ({', '.join(p.name for p in named)})"
        return Identification("unknown", seen, words=(f"{word}; {_PROBE}",))
    profile = named[0]
    units = profile.units()
    words: list[str] = []
    usable = observed.usable_cores
    if observed.performance_cores is not None and observed.performance_cores < usable:
        words.append(f"hybrid CPU: rates count the {observed.performance_cores} performance cores alone")
        usable = float(observed.performance_cores)
    scale: dict[str, float] = {}
    if units is not None and usable != units.value:
        scale["rate"] = usable / units.value
        words.append(f"{usable:g} cores usable (affinity, quota) of the {units.value:g} of a socket: rates are scaled")
        if usable < units.value:
            words.append("memory bandwidth is that of the whole socket, which others may share")
    sockets = observed.sockets or (max(1, round(observed.cores / units.value)) if units is not None else 1)
    if sockets > 1:
        scale["memory"] = float(sockets)
        words.append(f"{sockets} sockets: memory bandwidth is {sockets} times that of one")
    return Identification("match", seen, profile, tuple(words), scale)


def _devices(kind: str) -> list[DeviceProfile]:
    profiles = [load(name) for name in names(kind)]
    return [p for p in profiles if isinstance(p, DeviceProfile) and p.status != "cancelled"]
