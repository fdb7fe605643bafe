"""The limits of a device, measured: bandwidth and latency per memory level, arithmetic rates.

`measure_ceilings` yields a row per ceiling; `ceiling_names` lists what there is to measure.
"""

from .catalogue import UnknownCeilingError, ceiling_names
from .measure import measure_ceilings

__all__ = ["UnknownCeilingError", "ceiling_names", "measure_ceilings"]
