"""Find operators and implementations.

Built-in operators are the folders ``kernels/<family>/<operator>/`` that hold an ``operator.py``; a new backend is a
new file in such a folder. A backend's file is imported only when one of its implementations is asked for.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TypeVar

from .contract import Backend, Implementation, Inputs, Operator, Prepared, Workload
from .declarations import Declaration, declarations

_ROOM = Path(__file__).parent
_BACKEND_FILES: dict[str, str] = {"numba": "numba_kernel", "triton": "triton_kernel", "torch": "torch_baseline"}

_user_operators: dict[str, Operator] = {}
_implementations: dict[tuple[str, str], Implementation] = {}

Prepare = Callable[[Inputs, str], Prepared]
_P = TypeVar("_P", bound=Prepare)


class UnknownNameError(LookupError):
    """A name that no operator or implementation has; the message gives the nearest ones."""


def _unknown(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    return UnknownNameError(f"unknown {kind} {name!r}; {hint}")


@cache
def _builtin_names() -> tuple[str, ...]:
    return tuple(sorted(f"{p.parent.parent.name}.{p.parent.name}" for p in _ROOM.glob("*/*/operator.py")))


def operator_names() -> list[str]:
    """Return the names of all operators, built-in and registered."""
    return sorted({*_builtin_names(), *_user_operators})


def get_operator(name: str) -> Operator:
    """Return an operator by name.

    Raises
    ------
    UnknownNameError
        If there is none; the message names near matches.
    """
    if name in _user_operators:
        return _user_operators[name]
    if name not in _builtin_names():
        raise _unknown("operator", name, operator_names())
    return importlib.import_module(f".{name}.operator", __package__).OPERATOR


def register_operator(operator: Operator) -> Operator:
    """Make a user's operator known for this process.

    Raises
    ------
    ValueError
        If the name is taken by another operator.
    """
    known = _user_operators.get(operator.name)
    if operator.name in _builtin_names() or (known is not None and known is not operator):
        raise ValueError(f"operator {operator.name!r} exists already; choose another name")
    _user_operators[operator.name] = operator
    return operator


def implementation(
    operator: str,
    *,
    backend: Backend,
    devices: tuple[str, ...],
    name: str | None = None,
    baseline: bool = False,
) -> Callable[[_P], _P]:
    """Register the decorated ``prepare(inputs, device)`` as an implementation of an operator.

    Raises
    ------
    ValueError
        If the operator already has an implementation of that name, made by another function.
    """

    def register(prepare: _P) -> _P:
        key = (operator, name or backend)
        known = _implementations.get(key)
        if known is not None and _origin(known.prepare) != _origin(prepare):
            raise ValueError(f"{operator} already has an implementation named {key[1]!r}; choose another name")
        _implementations[key] = Implementation(operator, key[1], backend, devices, prepare, baseline)
        return prepare

    return register


def _origin(function: Callable[..., object]) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def backend_names(operator: str) -> list[str]:
    """Return the backends that have a file in a built-in operator's folder, without importing any."""
    folder = _ROOM / operator.replace(".", "/")
    return [b for b, stem in _BACKEND_FILES.items() if (folder / f"{stem}.py").is_file()]


def backend_module(operator: str, backend: str) -> str:
    """Return the module name of a built-in operator's backend file."""
    return f"{__package__}.{operator}.{_BACKEND_FILES[backend]}"


@cache
def _declared(operator: str) -> dict[str, Declaration]:
    folder = _ROOM / operator.replace(".", "/")
    files = [folder / f"{_BACKEND_FILES[backend]}.py" for backend in backend_names(operator)]
    return {d.name: d for file in files for d in declarations(file)}


def implementation_names(operator: str) -> list[str]:
    """Return the names of an operator's implementations without importing a backend."""
    registered = [name for op, name in _implementations if op == operator]
    return list(dict.fromkeys([*_declared(operator), *registered]))


def implementation_devices(operator: str, name: str) -> tuple[str, ...]:
    """Return the kinds of device an implementation runs on, without importing a built-in backend.

    Raises
    ------
    UnknownNameError
        If the operator has no implementation of that name.
    """
    declared = _declared(operator).get(name)
    return declared.devices if declared else get_implementation(operator, name).devices


def get_implementation(operator: str, name: str) -> Implementation:
    """Return an implementation, importing its backend if need be.

    Raises
    ------
    UnknownNameError
        If the operator has none of that name.
    ImportError
        If the backend's package is not installed.
    """
    if (operator, name) not in _implementations and name in _declared(operator):
        importlib.import_module(backend_module(operator, _declared(operator)[name].backend))
    try:
        return _implementations[operator, name]
    except KeyError:
        raise _unknown(f"implementation of {operator}", name, implementation_names(operator)) from None


def make_workload(operator: str, fields: dict[str, object]) -> Workload:
    """Build a workload from plain values, as stored in a measurement row.

    Raises
    ------
    UnknownNameError
        If a field does not exist; the message names the nearest.
    WorkloadError
        If the shape is impossible.
    """
    workload_type = get_operator(operator).workload_type
    known = workload_type.__dataclass_fields__
    for key in fields:
        if key not in known:
            raise _unknown(f"field of {workload_type.__name__}", key, known)
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    return workload_type(**values)


class PluginError(ValueError):
    """A user's file that cannot be executed; the message names file, line and what was raised."""


def load_plugin(path: Path) -> None:
    """Execute a user's Python file, whose decorators register operators and implementations.

    Raises
    ------
    PluginError
        If there is no such Python file, or it raises.
    """
    name = f"roofcast_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise PluginError(f"{path}: not a Python file; give the path of a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Dataclasses look their module up by name.
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = error.lineno if isinstance(error, SyntaxError) else frames[-1] if frames else None
        raise PluginError(f"{path}:{line or 1}: {type(error).__name__}: {error}") from error
