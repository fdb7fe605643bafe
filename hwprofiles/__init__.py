"""Facts about hardware: one YAML file per device or system, each figure with its source.

>>> from roofcast.hwprofiles import load
>>> rubin = load("vera-rubin-nvl72").gpu
>>> bandwidth = rubin.ceilings()["dram.read"]  # bytes/s, with .low, .high, .sources, .confidence
"""

from .catalogue import Entry, entries, load, load_device, load_file, names, to_frame, use_directory, user_directory
from .errors import Problem, ProfileError, UnknownProfileError
from .figure import Figure, Gap, Price, Source
from .profile import DeviceProfile, SystemProfile

__all__ = [
    "DeviceProfile",
    "Entry",
    "Figure",
    "Gap",
    "Price",
    "Problem",
    "ProfileError",
    "Source",
    "SystemProfile",
    "UnknownProfileError",
    "entries",
    "load",
    "load_device",
    "load_file",
    "names",
    "to_frame",
    "use_directory",
    "user_directory",
]
