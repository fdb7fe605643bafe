"""What is measured: one folder per operator, one file per backend in it."""

from .contract import (
    Arrays,
    Check,
    Cost,
    Implementation,
    Inputs,
    Operator,
    Prepared,
    UnsupportedError,
    Workload,
    WorkloadError,
    require,
)
from .registry import (
    UnknownNameError,
    get_implementation,
    get_operator,
    implementation,
    implementation_names,
    load_plugin,
    make_workload,
    operator_names,
    register_operator,
)

__all__ = [
    "Arrays",
    "Check",
    "Cost",
    "Implementation",
    "Inputs",
    "Operator",
    "Prepared",
    "UnknownNameError",
    "UnsupportedError",
    "Workload",
    "WorkloadError",
    "get_implementation",
    "get_operator",
    "implementation",
    "implementation_names",
    "load_plugin",
    "make_workload",
    "operator_names",
    "register_operator",
    "require",
]
