"""The rows of ``measurements.jsonl`` and the manifest ``run.json``.

The field descriptions here are the documentation of the columns (``docs/data.md`` is generated from them).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter

SCHEMA_VERSION = 2

Status = Literal["ok", "incorrect", "out_of_memory", "timeout", "crashed", "unsupported", "above_roof"]
STATUS_MEANING: dict[Status, str] = {
    "ok": "measured, and correct before and after timing",
    "incorrect": "the output differs from the float64 reference by more than the tolerance",
    "out_of_memory": "the case did not fit in memory",
    "timeout": "the case did not end within its time limit",
    "crashed": "the implementation raised or its process died",
    "unsupported": "the implementation cannot run this workload on this device",
    "above_roof": "faster than a measured ceiling allows, so the measurement or the count is wrong",
}


METHOD_MEANING: dict[str, str] = {
    "timer": "clock of the samples: the host's perf_counter_ns, or device events",
    "timer_resolution_s": "smallest step of the timer",
    "timer_overhead_s": "what timing an empty call shows",
    "host_timer_overhead_s": "GPU only: the same of the host's clock",
    "launch_overhead_s": "GPU only: host time to submit one small kernel",
    "overhead_subtracted": "whether the overhead mattered and was subtracted from every sample",
    "prepare_s": "time of converting inputs and allocating; the first case of a backend includes its import",
    "first_call_s": "time of the first call, which compiles",
    "warm_up_calls": "calls until the running median was stable",
    "warm_up_s": "time of the warm-up",
    "warm_up_stable": "whether the median became stable before the limit",
    "threads": "threads that every CPU backend was given",
    "pinned_threads": "worker threads pinned to one core each",
    "main_thread_pinned": "whether the main thread stayed on one core while sampling; not where that slows calls down",
    "cold_by": "cold only: flush (the cache is swept before each sample) or rotation (copies of the inputs take turns)",
    "flush": "flush only: time of reading a buffer warm and after a flush, and whether the flush was effective",
    "rotating_copies": "rotation only: how many copies of the inputs",
    "rotation_exceeds_cache": "rotation only: whether the copies together exceed the cache four times",
    "round_sizes": "samples per turn; implementations of one workload take turns",
    "throttled_rounds": "turns whose samples were taken under throttling after all retries",
    "retried_rounds": "turns taken again because the device was throttled",
    "sampling_s": "time of sampling, flushes and retries included",
    "criteria": "the stop criteria in the order in which they were asked",
}


Seconds = Annotated[FiniteFloat, Field(gt=0)]


class Row(BaseModel):
    """Base of all stored records: unknown fields are kept out, floats are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class MachineState(Row):
    """The state of the machine around one case; null where it cannot be read."""

    clock_hz: FiniteFloat | None = Field(
        default=None, description="mean clock of the cores or of the GPU, after the samples"
    )
    temperature_c: FiniteFloat | None = Field(default=None, description="hottest sensor, degrees Celsius")
    power_w: FiniteFloat | None = Field(default=None, description="power draw, watts")
    throttled: bool | None = Field(default=None, description="whether the device limited its clock while sampling")
    throttle_reasons: list[str] = Field(default_factory=list, description="the device's own reasons")
    load_average: FiniteFloat | None = Field(default=None, description="one-minute load average of the host")
    steal_fraction: FiniteFloat | None = Field(default=None, description="share of CPU time taken by the hypervisor")
    energy_j: FiniteFloat | None = Field(default=None, description="energy per call above idle, joules")
    energy_total_j: FiniteFloat | None = Field(default=None, description="energy per call with idle, joules")
    energy_note: str = Field(default="", description="how energy was read, or why it was not")


class Measurement(Row):
    """What one case left: a result or a failure."""

    record: Literal["measurement"] = Field(default="measurement", description="kind of record")
    schema_version: int = Field(default=SCHEMA_VERSION, description="version of the record")
    key: str = Field(description="case key: operator, workload, implementation, device and cache state")
    operator: str = Field(description="operator name, such as attention.decode")
    workload: dict[str, Any] = Field(description="the workload's fields")
    implementation: str = Field(description="implementation name, unique within the operator")
    backend: str = Field(description="numba, triton, torch or user")
    baseline: bool = Field(default=False, description="whether speed-ups are quoted against this row")
    device: str = Field(description="cpu, cuda:0, ...")
    device_name: str = Field(description="the device's name as it reports it")
    cache_state: Literal["cold", "warm"] = Field(
        description="whether the last-level cache was flushed before each sample"
    )
    status: Status = Field(description="ok, or the kind of failure")
    message: str = Field(default="", description="a sentence on the status; empty if ok")
    samples_s: list[Seconds] = Field(default_factory=list, description="seconds per call, one per sample, in order")
    calls_per_sample: int = Field(default=1, description="calls timed together because one is too short for the timer")
    median_s: Seconds | None = Field(default=None, description="median of the samples, seconds")
    ci95_low_s: Seconds | None = Field(default=None, description="95 % confidence interval of the median, lower end")
    ci95_high_s: Seconds | None = Field(default=None, description="95 % confidence interval of the median, upper end")
    stop_reason: str = Field(default="", description="why sampling ended")
    host_time_s: FiniteFloat | None = Field(default=None, description="GPU only: median host time per call, seconds")
    cost: dict[str, Any] = Field(default_factory=dict, description="the workload's cost (kernels.Cost)")
    roofs_s: dict[str, FiniteFloat] = Field(default_factory=dict, description="least time under each measured ceiling")
    bound_by: str | None = Field(default=None, description="the ceiling with the largest roof")
    fraction_of_roof: FiniteFloat | None = Field(default=None, description="largest roof / median")
    max_error: FiniteFloat | None = Field(
        default=None, description="largest error in units of its tolerance; 1 is the limit"
    )
    seed: int = Field(description="seed of the inputs")
    state: MachineState = Field(default_factory=MachineState, description="the machine while sampling")
    host: str = Field(description="host name")
    software: dict[str, str] = Field(default_factory=dict, description="versions of Python and packages")
    commit: str = Field(default="", description="commit of the code that measured, '+dirty' if it had changes")
    method: dict[str, Any] = Field(default_factory=dict, description="how it was measured; its keys are below")
    started_at: str = Field(description="UTC time, ISO 8601")


class CeilingRow(Row):
    """A measured limit of a device.

    Names are ``<level>.<access>`` for bandwidths (``dram.read``, ``dram.copy``, ``dram.triad``, ``llc.read``; access
    ``read``, ``write``, ``copy`` or ``triad``) and ``<unit>.<precision>`` for rates (``vector.fp32``,
    ``matrix.bf16``, ``exp.fp32``, ``compare.fp32``); hardware profiles use the same names.
    """

    record: Literal["ceiling"] = Field(default="ceiling", description="kind of record")
    schema_version: int = Field(default=SCHEMA_VERSION, description="version of the record")
    key: str = Field(description="ceiling name and device")
    name: str = Field(description="dram.read, llc.read, vector.fp32, matrix.bf16, exp.fp32, ...")
    device: str = Field(description="cpu, cuda:0, ...")
    device_name: str = Field(description="the device's name as it reports it")
    status: Status = Field(description="ok, or the kind of failure")
    message: str = Field(default="", description="a sentence on the status; empty if ok")
    value: FiniteFloat | None = Field(default=None, description="in `unit`, median of the best stretch of the samples")
    unit: Literal["bytes/s", "FLOP/s", "op/s", "s"] = Field(description="unit of value")
    low: FiniteFloat | None = Field(
        default=None, description="95 % confidence interval of that median, lower end; for a latency the least sample"
    )
    high: FiniteFloat | None = Field(
        default=None,
        description="greatest rate in any sample of any competing kernel; for a latency the upper end of the interval",
    )
    samples: list[FiniteFloat] = Field(default_factory=list, description="all samples, in `unit`")
    threads: int = Field(default=1, description="threads used")
    working_set_bytes: int | None = Field(default=None, description="bytes the kernel went over")
    method: str = Field(default="", description="the kernel and how its work is counted")
    specified: FiniteFloat | None = Field(
        default=None, description="in `unit`, what the device's hardware profile specifies; null without one"
    )
    specified_low: FiniteFloat | None = Field(default=None, description="least specified figure where sources disagree")
    specified_high: FiniteFloat | None = Field(default=None, description="greatest specified figure")
    specified_source: str = Field(default="", description="profile and source of the specified figure, or why none")
    disagrees: bool | None = Field(
        default=None,
        description="whether the value is below 70 % of `specified_low` or above 105 % of `specified_high`",
    )
    sweep: list[tuple[int, FiniteFloat]] = Field(
        default_factory=list,
        description="levels of a CPU's memory: working set in bytes and read bandwidth in bytes/s of the sweep in "
        "which the level's knee was looked for",
    )
    state: MachineState = Field(default_factory=MachineState, description="the machine while sampling")
    started_at: str = Field(description="UTC time, ISO 8601")


class Manifest(Row):
    """Where, when, with what and how a run was made."""

    schema_version: int = Field(default=SCHEMA_VERSION, description="version of the record")
    run_id: str = Field(description="name of the run folder")
    created_at: str = Field(description="UTC time, ISO 8601")
    host: str = Field(description="host name")
    machine: dict[str, Any] = Field(description="profiler.machine.Machine as plain values")
    software: dict[str, str] = Field(description="versions of Python and packages")
    commit: str = Field(description="commit of the code, '+dirty' if it had changes")
    command: list[str] = Field(description="the command line")
    settings: dict[str, Any] = Field(default_factory=dict, description="choices that hold for every case")
    complete: bool = Field(default=False, description="whether the run came to its end")


Record = Annotated[Measurement | CeilingRow, Field(discriminator="record")]
RECORD: TypeAdapter[Measurement | CeilingRow] = TypeAdapter(Record)
