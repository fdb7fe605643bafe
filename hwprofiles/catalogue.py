"""Find profiles by the names that people type.

Profiles come from three places; a later one may replace an earlier one of the same name: the files shipped here, the
user's ``~/.config/roofcast/hwprofiles/``, and a directory given by ``--hwprofiles`` or ``ROOFCAST_HWPROFILES``.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ProfileError, UnknownProfileError, nearest
from .profile import DeviceProfile, SystemProfile

if TYPE_CHECKING:
    import pandas as pd

_ROOM = Path(__file__).parent
_SHIPPED = ("gpus", "cpus", "systems")
_NOISE = {"nvidia", "amd", "intel", "aws", "google", "gpu", "cpu", "geforce", "instinct", "cloud", "the"}
_LONGEST = 100
_chosen: Path | None = None


@dataclass(frozen=True)
class Entry:
    """The head of a profile file: enough to find it."""

    name: str
    kind: str
    vendor: str
    status: str
    title: str
    aliases: tuple[tuple[str, str], ...]
    path: Path


def use_directory(path: Path | None) -> None:
    """Take profiles from a further directory in this process (``--hwprofiles``); None ends it.

    Raises
    ------
    NotADirectoryError
        If it is none.
    """
    global _chosen
    if path is not None and not path.is_dir():
        raise NotADirectoryError(20, "is not a directory of hardware profiles", str(path))
    _chosen = path


def user_directory() -> Path:
    """Return the directory of the user's own profiles, which need not exist."""
    import platformdirs

    return Path(platformdirs.user_config_dir("roofcast", appauthor=False)) / "hwprofiles"


def directories() -> list[Path]:
    """Return the directories that profiles are taken from, the one that wins last."""
    found = [_ROOM / name for name in _SHIPPED]
    user = user_directory()
    if user.is_dir():
        found.append(user)
    given = os.environ.get("ROOFCAST_HWPROFILES")
    if given:
        if not Path(given).is_dir():
            raise NotADirectoryError(20, "named by ROOFCAST_HWPROFILES is not a directory", given)
        found.append(Path(given))
    if _chosen is not None:
        found.append(_chosen)
    return found


def files() -> list[Path]:
    """Return all profile files, those that win last."""
    return [path for directory in directories() for path in sorted(directory.glob("*.yaml"))]


@lru_cache(maxsize=512)
def _entry(path: Path, _stamp: tuple[int, int]) -> Entry:
    """Read the head of a file. ``_stamp`` (time and size) makes a changed file be read again."""
    from .yaml_tree import parse, read_text

    tree = parse(read_text(path), str(path))
    data = tree.data
    raw = data.get("aliases")
    aliases = [_alias(item) for item in raw] if isinstance(raw, list) else []
    head = (str(data.get(key, "")) for key in ("kind", "vendor", "status", "title"))
    return Entry(path.stem, *head, aliases=tuple(aliases), path=path)


def _alias(item: Any) -> tuple[str, str]:
    if isinstance(item, dict):
        return str(item.get("name", "")), str(item.get("note", ""))
    return str(item), ""


def read_entry(path: Path) -> Entry:
    """Return the head of a profile file.

    Raises
    ------
    ProfileError
        If the file is not YAML.
    """
    stat = path.stat()
    return _entry(path, (stat.st_mtime_ns, stat.st_size))


def entries() -> dict[str, Entry]:
    """Return the heads of all profiles by name; a file that is no YAML is there with the status ``unreadable``."""
    found = {}
    for path in files():
        try:
            found[path.stem] = read_entry(path)
        except ProfileError:
            found[path.stem] = Entry(path.stem, "", "", "unreadable", "", (), path)
    return found


def names(kind: str | None = None) -> list[str]:
    """Return the names of all profiles, or of one kind (``gpu``, ``cpu``, ``tpu``, ``system``)."""
    return sorted(name for name, entry in entries().items() if kind in (None, entry.kind))


def _words(name: str) -> list[str]:
    parts = re.findall(r"[a-z0-9+]+", name.lower())
    return [part for part in parts if part not in _NOISE] or parts


def spellings(name: str) -> tuple[str, str]:
    """Return two forgiving forms of a name: letters and digits alone, and its words sorted."""
    words = _words(name)
    return "".join(words), " ".join(sorted(words))


def _find(name: str) -> tuple[Entry, str]:
    """Return the entry that a name means, and what its user should learn about the name."""
    known = entries()
    if len(name) > _LONGEST:
        raise UnknownProfileError(f"a hardware profile's name has at most {_LONGEST} characters, this one {len(name)}")
    if name in known:
        return known[name], ""
    wanted = set(spellings(name))
    for form in (0, 1):
        spelled = {}
        for entry in known.values():
            for alias, note in ((entry.name, ""), (entry.title, ""), *entry.aliases):
                spelled.setdefault(spellings(alias)[form], []).append((entry, note))
        hits = [hit for key in wanted for hit in spelled.get(key, [])]
        if len({entry.name for entry, _ in hits}) == 1:
            return max(hits, key=lambda hit: len(hit[1]))
        if hits:
            options = sorted({entry.name for entry, _ in hits})
            raise UnknownProfileError(f"hardware profile {name!r} is ambiguous: {', '.join(options)}")
    known_names = {
        alias.lower(): entry.name for entry in known.values() for alias in (entry.name, *(a for a, _ in entry.aliases))
    }
    hint = nearest(name, known_names)
    if not hint.startswith("did you mean"):
        hint = "none is near; 'roofcast hw list' shows all, 'roofcast hw probe' makes one of this machine"
    raise UnknownProfileError(f"unknown hardware profile {name!r}; {hint}")


def find_file(name: str) -> Path:
    """Return the file of a profile or family (``_hopper``).

    Raises
    ------
    UnknownProfileError
        If there is none; the message names near matches.
    """
    if name.startswith("_"):
        families = {path.stem: path for path in (_ROOM / "families").glob("_*.yaml")}
        if name not in families:
            raise UnknownProfileError(f"unknown family {name!r}; {nearest(name, families)}")
        return families[name]
    for directory in reversed(directories()):
        if len(name) <= _LONGEST and re.fullmatch(r"[\w.+-]+", name) and (directory / f"{name}.yaml").is_file():
            return directory / f"{name}.yaml"
    return _find(name)[0].path


def load(name: str) -> DeviceProfile | SystemProfile:
    """Return a profile by name; names are forgiving (``B200-SXM``, ``vr nvl72``).

    Its ``notices`` say what the user should learn: that the name is an old one, or that the product was cancelled.

    Raises
    ------
    UnknownProfileError
        If no profile has that name; the message names near matches.
    ProfileError
        If the profile's file is wrong.
    """
    notices = []
    try:
        path = find_file(name) if not name.startswith("_") else None
    except UnknownProfileError:
        path = None
    if path is None or path.stem != name:
        entry, note = _find(name)
        path, notices = entry.path, [note] if note else []
    stat = path.stat()
    profile = _load(path, stat.st_mtime_ns, _chosen, os.environ.get("ROOFCAST_HWPROFILES"))
    if profile.status == "cancelled":
        notices.append(f"{profile.title}: cancelled. {profile.status_note}")
    return replace(profile, notices=tuple(notices))


@lru_cache(maxsize=256)
def _load(path: Path, _stamp: int, _chosen: Path | None, _given: str | None) -> DeviceProfile | SystemProfile:
    return load_file(path)


def load_file(path: Path) -> DeviceProfile | SystemProfile:
    """Return the profile in a file, wherever it is.

    Raises
    ------
    ProfileError
        If the file is wrong.
    """
    from .loader import read_profile

    return read_profile(path, find_file)


def load_device(name: str) -> DeviceProfile:
    """Return a device by name; of a system, its GPU (or its CPU where it has none)."""
    profile = load(name)
    if isinstance(profile, DeviceProfile):
        return profile
    device = profile.gpu or profile.cpu
    if device is None:
        raise UnknownProfileError(f"hardware profile {profile.name!r} has no device")
    return device


def to_frame(kind: str | None = None) -> pd.DataFrame:
    """Return every figure of all profiles (or of one kind) as a pandas table, one row per figure, SI units."""
    import pandas as pd

    tables = [load(name).to_frame() for name in names(kind)]
    return pd.concat([table for table in tables if not table.empty], ignore_index=True)
