"""Targets of projection: a profile's ceilings as specified, and as the best kernels attain them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from .ceilings import Ceiling, Ceilings, from_profile
from .tables import attained_share, load_table, source_title

if TYPE_CHECKING:
    from ..hwprofiles import DeviceProfile, SystemProfile

Case = Literal["low", "mid", "high"]


@dataclass(frozen=True)
class Target:
    """A device that times are projected onto.

    Parameters
    ----------
    name
        The profile's own; a system's name stands for its GPU with the system's own figures.
    specified
        The profile's ceilings with the range of their sources, plus those derived from others.
    attained
        The same times the share that the best kernels reach, as three sets: every ceiling at its ``low`` end, in the
        ``mid``, at its ``high`` end.
    sources
        Source keys of the profile with their titles.
    """

    name: str
    title: str
    device: str
    kind: str
    vendor: str
    architecture: str
    status: str
    specified: Ceilings
    attained: Mapping[Case, Ceilings]
    sources: Mapping[str, dict[str, Any]]


def load_target(target: str | Target | DeviceProfile | SystemProfile) -> Target:
    """Return a target by a profile's name, or from a loaded profile.

    Raises
    ------
    hwprofiles.UnknownProfileError
        If there is no profile of that name; the message names near matches.
    hwprofiles.ProfileError
        If the profile is malformed.
    """
    if isinstance(target, Target):
        return target
    if isinstance(target, str):
        from ..hwprofiles import load

        target = load(target)
    # The catalogue keeps a file's figures until the file changes, so they are the same object exactly as long.
    kept = _made.get(id(target.fields))
    if kept is None or kept[0] is not target.fields:
        kept = target.fields, make_target(target)
        _made[id(target.fields)] = kept
    return kept[1]


# By identity of a profile's figures, with the figures themselves so that no other object takes their place.
_made: dict[int, tuple[object, Target]] = {}


def make_target(profile: Any, *, attained_as: str = "") -> Target:
    """Return the target that a device's or a system's profile describes.

    Parameters
    ----------
    attained_as
        A device or architecture of ``attained.yaml`` whose shares of the specified ceilings stand in for the device's
        own: a test of projections may not know what kernels reach on the very device.
    """
    device = getattr(profile, "gpu", None) or (getattr(profile, "cpu", None) or profile)
    specified = _with_derived(from_profile(device))
    residency = load_table("attained")["residency"]["factor"]
    usable = {n: v if n == "dram" else v * residency for n, v in specified.capacities.items()}
    attained = {n: _attained(specified, c, attained_as) for n, c in specified.named.items()}
    sets: dict[Case, Ceilings] = {
        case: replace(
            specified,
            named={n: replace(c, value=getattr(c, "value" if case == "mid" else case)) for n, c in attained.items()},
            capacities=usable,
        )
        for case in ("low", "mid", "high")
    }
    return Target(
        name=profile.name,
        title=profile.title,
        device=device.name,
        kind=device.kind,
        vendor=device.vendor,
        architecture=device.architecture,
        status=getattr(profile, "status", "") or device.status,
        specified=specified,
        attained=sets,
        sources={k: _source(s) for p in (device, profile) for k, s in dict(p.sources).items()},
    )


def _source(source: Any) -> dict[str, Any]:
    return dict(source) if isinstance(source, Mapping) else source.as_dict()


def _attained(device: Ceilings, ceiling: Ceiling, like: str) -> Ceiling:
    share = attained_share(like or device.device, like or device.architecture, device.kind, ceiling.name)
    return replace(
        ceiling,
        value=ceiling.value * share.mid,
        low=ceiling.low * share.low,
        high=ceiling.high * share.high,
        limit=0.0,
        origin="attained",
        source=f"{ceiling.source}; {share.mid:.2f} of it ({share.low:.2f} to {share.high:.2f}) attained: {share.title}",
    )


def _with_derived(ceilings: Ceilings) -> Ceilings:
    """Add the ceilings that a GPU's profile lacks and that follow from others."""
    if ceilings.kind != "gpu":
        return ceilings
    table = load_table("attained")
    more: dict[str, Ceiling] = {}
    for name, rule in table["derived"].items():
        of = ceilings.get(rule["of"])
        if name in ceilings or of is None:
            continue
        low, mid, high = rule["factor"]
        more[name] = Ceiling(
            name=name,
            value=of.value * mid,
            low=of.low * low,
            high=of.high * high,
            unit="op/s" if of.unit == "FLOP/s" else of.unit,
            origin="derived",
            source=f"{mid:g} x {of.name} ({of.source}): {source_title(table, rule['source'])}",
        )
    return ceilings.replaced(more)
