"""The types every operator and every implementation is written against."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]
Backend = Literal["numba", "triton", "torch", "user"]


class WorkloadError(ValueError):
    """A workload that cannot exist; the message names the field, its value and the remedy."""


class UnsupportedError(RuntimeError):
    """An implementation that cannot run a workload here; the message says why and what would help."""


@dataclass(frozen=True)
class Workload:
    """One operator's shape, precision and data distribution.

    Subclasses are frozen dataclasses whose fields are plain JSON values. They refuse impossible shapes in
    ``__post_init__`` with a `WorkloadError` that names the field.
    """

    operator: ClassVar[str]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return dataclasses.asdict(self)

    def label(self) -> str:
        """Return a one-line form that is equal exactly when the workloads are equal."""
        fields = ", ".join(f"{name}={value!r}" for name, value in self.as_dict().items())
        return f"{type(self).__name__}({fields})"


def require(condition: bool, field_name: str, value: object, remedy: str) -> None:
    """Raise `WorkloadError` naming the field unless ``condition`` holds."""
    if not condition:
        raise WorkloadError(f"{field_name} = {value!r}: {remedy}")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The work a workload must do, counted from the algorithm and not from any implementation.

    Parameters
    ----------
    flops
        FLOP count by ``"<unit>.<precision>"``. Unit ``matrix`` is work shaped as matrix products (it may run on
        matrix or vector units), ``vector`` is elementwise work. One fused multiply-add is 2 FLOP.
    read_bytes, write_bytes
        Compulsory bytes by memory level: inputs read once, outputs written once. ``dram`` is the outermost level
        of the device (HBM on a GPU) and is always present.
    exponentials
        Evaluations of exp, log or the like.
    compares
        Key comparisons of selection and sorting work.
    launches
        Kernel launches of the least implementation.
    link_bytes
        Bytes sent per device over the scale-up link.
    """

    flops: Mapping[str, float] = field(default_factory=dict)
    read_bytes: Mapping[str, float]
    write_bytes: Mapping[str, float]
    exponentials: float = 0.0
    compares: float = 0.0
    launches: int = 1
    link_bytes: float = 0.0

    def __post_init__(self) -> None:
        for name in ("read_bytes", "write_bytes"):
            if "dram" not in getattr(self, name):
                raise ValueError(f"{name}: the level 'dram' is missing; give 0.0 if nothing moves")
        for name, value in self._counts():
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} = {value}: a count is finite and not negative")

    def _counts(self) -> list[tuple[str, float]]:
        counts = [(f"flops[{k}]", v) for k, v in self.flops.items()]
        counts += [(f"read_bytes[{k}]", v) for k, v in self.read_bytes.items()]
        counts += [(f"write_bytes[{k}]", v) for k, v in self.write_bytes.items()]
        scalars = ("exponentials", "compares", "launches", "link_bytes")
        return counts + [(name, float(getattr(self, name))) for name in scalars]

    @property
    def dram_bytes(self) -> float:
        """Compulsory bytes at the outermost level, read and written."""
        return self.read_bytes["dram"] + self.write_bytes["dram"]

    @property
    def total_flops(self) -> float:
        """FLOP over all units and precisions."""
        return float(sum(self.flops.values()))

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON values."""
        return dataclasses.asdict(self)


@dataclass
class Inputs:
    """The arrays of one workload, drawn from one seed.

    ``arrays`` are numpy arrays; bf16 is held as ``uint16`` (see `kernels.precision`). An implementation converts
    them in ``prepare``, which is never timed.
    """

    workload: Workload
    seed: int
    arrays: Arrays
    _expected: Arrays | None = field(default=None, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes held by the input arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def expected(self, reference: Callable[[Inputs], Arrays]) -> Arrays:
        """Return the reference output, computed once."""
        if self._expected is None:
            self._expected = reference(self)
        return self._expected


@dataclass(frozen=True)
class Check:
    """The outcome of comparing an output with the float64 reference.

    ``max_error`` is the largest error in units of its own tolerance, so that 1.0 is the limit for every output
    and precision; ``message`` names the first output that is wrong, or is empty.
    """

    ok: bool
    max_error: float
    message: str = ""


@dataclass(frozen=True)
class Operator:
    """A piece of work of the loop, without any backend.

    Parameters
    ----------
    name
        ``"<family>.<operator>"``, for instance ``"attention.decode"``. It is also the path of its folder.
    summary
        One sentence for ``roofcast ops``.
    phases
        The phases of the loop in which it runs.
    workload_type
        The frozen dataclass of its workloads.
    cost, make_inputs, reference
        ``cost(workload)``, ``make_inputs(workload, seed)`` and ``reference(inputs)`` in float64.
    compare
        ``compare(output, expected, inputs)``; use `check`, which computes ``expected`` once per inputs.
    """

    name: str
    summary: str
    phases: tuple[str, ...]
    workload_type: type[Workload]
    cost: Callable[[Any], Cost]
    make_inputs: Callable[[Any, int], Inputs]
    reference: Callable[[Inputs], Arrays]
    compare: Callable[[Arrays, Arrays, Inputs], Check]

    def check(self, output: Arrays, inputs: Inputs) -> Check:
        """Compare an output with the float64 reference of its inputs."""
        return self.compare(output, inputs.expected(self.reference), inputs)


@dataclass(frozen=True)
class Prepared:
    """An implementation bound to its inputs: everything allocated and converted, ready to be timed.

    ``run`` does the work once, asynchronously on a GPU, and allocates nothing where the backend allows it.
    ``output`` returns the result of the latest ``run`` as numpy arrays (bf16 as float32).
    """

    run: Callable[[], object]
    output: Callable[[], Arrays]


@dataclass(frozen=True)
class Implementation:
    """One way to run an operator.

    Parameters
    ----------
    operator, name, backend
        ``name`` is unique within the operator; built-in ones are named after their backend.
    devices
        Kinds of device it runs on: ``"cpu"``, ``"cuda"`` (which includes ROCm, as torch names it).
    prepare
        ``prepare(inputs, device)`` with ``device`` such as ``"cpu"`` or ``"cuda:0"``. Raises `UnsupportedError`
        with a reason where it cannot run the workload.
    baseline
        Whether speed-ups are quoted against it.
    """

    operator: str
    name: str
    backend: Backend
    devices: tuple[str, ...]
    prepare: Callable[[Inputs, str], Prepared]
    baseline: bool = False
