"""Measured kernel tables of real GPUs, from the package ``aiconfigurator-core``, as rows that roofcast projects from.

>>> from roofcast.roofline.silicon import import_gpu
>>> tables = import_gpu("h200")
>>> tables.rows.groupby("operator_class").size()
"""

from __future__ import annotations

from .gpus import SiliconGpu, UnknownGpuError, gpu_names, silicon_gpu
from .importing import Silicon, has_tables, import_gpu
from .package import SiliconMissingError

__all__ = [
    "Silicon",
    "SiliconGpu",
    "SiliconMissingError",
    "UnknownGpuError",
    "gpu_names",
    "has_tables",
    "import_gpu",
    "silicon_gpu",
]
