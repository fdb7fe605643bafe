"""A system as the loop sees it: ceilings, memory and the size of its scale-up domain."""

from __future__ import annotations

from dataclasses import dataclass

from ...hwprofiles import DeviceProfile, SystemProfile
from ..targets import Target, load_target


class UnsuitableSystemError(ValueError):
    """A profile that the loop cannot run on; the message says what it lacks."""


@dataclass(frozen=True)
class System:
    """Where a loop runs: a GPU or a system of them, with what is needed of its profile."""

    name: str
    title: str
    target: Target
    profile: DeviceProfile | SystemProfile
    domain: int

    @classmethod
    def load(cls, name: str | DeviceProfile | SystemProfile) -> System:
        """Load a system by a profile's name, or from a profile.

        Raises
        ------
        hwprofiles.UnknownProfileError
            If there is none of that name.
        UnsuitableSystemError
            If it has no GPU.
        """
        from ...hwprofiles import load

        profile = load(name) if isinstance(name, str) else name
        target = load_target(profile)
        if target.kind != "gpu":
            raise UnsuitableSystemError(f"{profile.name} has no GPU; the loop needs a GPU or a system of GPUs")
        count = profile.gpu_count if isinstance(profile, SystemProfile) else 8
        return cls(profile.name, profile.title, target, profile, count)

    @property
    def memory_bytes(self) -> float:
        """Main memory of one GPU.

        Raises
        ------
        UnsuitableSystemError
            If the profile does not state it.
        """
        capacity = self.target.specified.capacities.get("dram")
        if capacity is None:
            raise UnsuitableSystemError(f"{self.name}: the profile states no memory.dram.capacity; add it")
        return capacity
