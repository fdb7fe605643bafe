"""How kernels are measured: devices, timing, statistics, ceilings, the run store and comparison.

Names are loaded when first used, so that importing the room stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cases import Case, group_cases, make_cases
    from .comparison import CaseComparison, CompareError, Comparison, compare
    from .export import export_run
    from .failures import CaseFailureError
    from .measuring import measure
    from .run import Progress, run_cases
    from .run_folder import RunFolder, RunFolderError
    from .schema import CeilingRow, MachineState, Manifest, Measurement
    from .settings import Settings, SettingsError
    from .store import HalfWrittenRowWarning, Run, StoreError, load_run
    from .suites import UnknownSuiteError, suite, suite_names

_HOME = {
    "Case": "cases",
    "group_cases": "cases",
    "make_cases": "cases",
    "CaseComparison": "comparison",
    "CompareError": "comparison",
    "Comparison": "comparison",
    "compare": "comparison",
    "export_run": "export",
    "CaseFailureError": "failures",
    "measure": "measuring",
    "Progress": "run",
    "run_cases": "run",
    "RunFolder": "run_folder",
    "RunFolderError": "run_folder",
    "CeilingRow": "schema",
    "MachineState": "schema",
    "Manifest": "schema",
    "Measurement": "schema",
    "Settings": "settings",
    "SettingsError": "settings",
    "HalfWrittenRowWarning": "store",
    "Run": "store",
    "StoreError": "store",
    "load_run": "store",
    "UnknownSuiteError": "suites",
    "suite": "suites",
    "suite_names": "suites",
}

__all__ = [  # noqa: RUF022 (grouped as above)
    "Case", "group_cases", "make_cases", "CaseComparison", "CompareError", "Comparison", "compare", "export_run",
    "CaseFailureError", "measure", "Progress", "run_cases", "RunFolder", "RunFolderError", "CeilingRow",
    "MachineState", "Manifest", "Measurement", "Settings", "SettingsError", "HalfWrittenRowWarning", "Run",
    "StoreError", "load_run", "UnknownSuiteError", "suite", "suite_names",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
