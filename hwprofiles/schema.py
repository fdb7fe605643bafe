"""The YAML form of a profile: what fields there are and what each holds.

Peaks are dense and per device. Links are per direction. Bandwidths are those of the pins unless a note says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from .figure_field import (
    Bandwidth,
    Clock,
    Count,
    DataRate,
    FlopCount,
    FlopRate,
    Latency,
    Link,
    Named,
    OpCount,
    OpRate,
    Power,
    PricePerHour,
    PriceToBuy,
    Size,
    Width,
    check_date,
)

Date = Annotated[str, AfterValidator(check_date)]
Status = Literal["announced", "shipping", "legacy", "cancelled", "unknown"]


class Section(BaseModel):
    """Base of all parts: a field that does not exist is an error, not a comment."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class SourceField(Section):
    """A source; it stands under its key in ``sources``."""

    title: str = Field(min_length=3)
    date: Date = Field(description="when it was published or read")
    url: str | None = Field(None, pattern=r"^https?://\S+$")


class Dates(Section):
    announced: Date | None = None
    shipping: Date | None = None


class FlopPerClock(Section):
    """FLOP per clock and SM, CU or core: what peaks are checked against."""

    fp64: FlopCount = None
    fp32: FlopCount = None
    tf32: FlopCount = None
    fp16: FlopCount = None
    bf16: FlopCount = None
    fp8: FlopCount = None
    fp6: FlopCount = None
    nvfp4: FlopCount = None
    mxfp4: FlopCount = None


class Rates(Section):
    """Peak rate per precision, dense unless the section's name says otherwise."""

    fp64: FlopRate = None
    fp32: FlopRate = None
    tf32: FlopRate = None
    fp16: FlopRate = None
    bf16: FlopRate = None
    fp8: FlopRate = None
    fp6: FlopRate = None
    nvfp4: FlopRate = None
    mxfp4: FlopRate = None
    int8: OpRate = None


class OpRates(Section):
    fp32: OpRate = None
    fp16: OpRate = None
    bf16: OpRate = None


class OpPerClock(Section):
    fp32: OpCount = None
    fp16: OpCount = None
    bf16: OpCount = None


class Clocks(Section):
    """``boost`` is the highest clock, ``tensor`` the one at which the maker quotes matrix peaks."""

    base: Clock = None
    boost: Clock = None
    all_core: Clock = None
    sustained: Clock = None
    tensor: Clock = None
    l2: Clock = None


class Compute(Section):
    sms: Count = Field(None, description="streaming multiprocessors enabled (NVIDIA)")
    cus: Count = Field(None, description="compute units or work-group processors (AMD)")
    cores: Count = Field(None, description="cores of one CPU socket")
    threads: Count = Field(None, description="hardware threads of one CPU socket")
    clock: Clocks | None = None
    simd: str | None = Field(None, description="vector units of a CPU core in words")
    vector: Rates | None = None
    matrix: Rates | None = None
    matrix_fp16_acc: Rates | None = Field(None, description="matrix peaks that accumulate in fp16")
    matrix_sparse: Rates | None = Field(None, description="peaks with structured sparsity or compression")
    matrix_emulated: Rates | None = Field(None, description="peaks by emulation on narrower units")
    exp: OpRates | None = Field(None, description="exponentials per second of the device")
    compare: OpRates | None = Field(None, description="comparisons of keys per second of the device")
    exp_per_clock: OpPerClock | None = Field(None, description="exponentials per clock and SM")
    flop_per_clock: dict[Literal["vector", "matrix"], FlopPerClock] | None = None


class MemoryLevel(Section):
    kind: str | None = Field(None, description="HBM3e, DDR5-6400, L2 ...")
    capacity: Size = Field(None, description="what a program can use")
    nominal: Size = Field(None, description="what the maker's name promises, where that is more")
    per_core: Size = Field(None, description="capacity of one core's private cache")
    bandwidth: Bandwidth = None
    bus: Width = Field(None, description="bits of the interface: channels x bits of a channel")
    data_rate: DataRate = Field(None, description="per pin")
    latency: Latency = None
    effective: Size = Field(None, description="data that stays resident in measurements, where that is less")


class Memory(Section):
    dram: MemoryLevel | None = None
    l1: MemoryLevel | None = None
    l2: MemoryLevel | None = None
    l3: MemoryLevel | None = None


class PerSm(Section):
    """Limits of one SM (NVIDIA), CU or WGP (AMD)."""

    registers: Size = None
    shared_memory: Size = None
    shared_memory_oversized: Size = Field(None, description="opt-in mode that leaves little L1")
    shared_memory_per_clock: Size = Field(None, description="bytes per clock")
    tensor_memory: Size = None
    warps: Count = None
    threads: Count = None
    blocks: Count = None
    registers_per_thread: Count = None


class Links(Section):
    """Per device and per direction."""

    nvlink: Link = None
    c2c: Link = None
    pcie: Link = None
    nic: Link = None
    xgmi: Link = None
    ualoe: Link = None
    ici: Link = None


class PowerField(Section):
    tdp: Power = None
    tdp_max_q: Power = None
    tdp_max_p: Power = None
    all_in: Power = Field(None, description="per GPU with its share of host, network and cooling")
    system: Power = None
    rack: Power = None
    rack_max_q: Power = None
    rack_max_p: Power = None
    rack_peak: Power = None


class Prices(Section):
    """Per GPU and hour, or to buy one device or system. The range is the spread between providers."""

    tco_hyperscaler: PricePerHour = Field(None, description="own hardware, large operator, all-in")
    tco_neocloud: PricePerHour = Field(None, description="own hardware, GPU cloud operator, all-in")
    rental_3y: PricePerHour = None
    rental_1y: PricePerHour = None
    on_demand: PricePerHour = None
    spot: PricePerHour = None
    purchase: PriceToBuy = None


class Match(Section):
    """How a live device is recognised. All that is given must hold."""

    names: list[str] = Field(min_length=1, description="regular expressions for the whole name the driver reports")
    sms: list[Annotated[int, Field(gt=0)]] | None = None
    cores: list[Annotated[int, Field(gt=0)]] | None = Field(
        None, description="physical cores of a CPU, where its name alone does not tell"
    )
    memory_mib: tuple[int, int] | None = Field(None, description="least and most visible memory, MiB")
    bus_bits: list[Annotated[int, Field(gt=0)]] | None = None


class Alias(Section):
    name: str
    note: str = Field("", description="what the user who types this name should learn")


AliasField = Annotated[
    Alias,
    BeforeValidator(lambda raw: {"name": raw} if isinstance(raw, str) else raw),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}, "note": {"type": "string"}},
                },
            ]
        }
    ),
]


class Identity(Section):
    """What every profile says about itself."""

    schema_version: Literal[1, "1"] = 1
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$", description="equal to the file's name")
    title: str
    vendor: str
    status: Status
    status_note: str = ""
    aliases: list[AliasField] = Field(default_factory=list, description="names, or {name:, note:}")
    dates: Dates | None = None
    note: str = ""
    disagreements: dict[str, str] = Field(
        default_factory=dict, description="why a cross-check of this file does not come out, by the check's name"
    )
    sources: dict[str, SourceField]


class DeviceFile(Identity):
    """A GPU, TPU or CPU."""

    kind: Literal["gpu", "cpu", "tpu"]
    architecture: str
    chip: str = ""
    compile_target: str | None = None
    match: Match | None = None
    compute: Compute | None = None
    memory: Memory | None = None
    per_sm: PerSm | None = None
    links: Links | None = None
    power: PowerField | None = None
    prices: Prices | None = None
    anchors: Named = Field(default_factory=dict, description="what third parties measured, by ceiling name")


class Part(Section):
    """A device of a system, how often it is there, and what is different about it there."""

    profile: str
    count: Annotated[int, Field(gt=0, le=100_000)]
    override: dict[str, Any] = Field(default_factory=dict)


class Totals(Section):
    """What the maker publishes for the whole system; links are per direction and summed over the GPUs."""

    matrix: Rates | None = None
    vector: Rates | None = None
    matrix_sparse: Rates | None = None
    dram_capacity: Size = None
    dram_bandwidth: Bandwidth = None
    cpu_dram_capacity: Size = None
    nvlink: Link = None
    c2c: Link = None
    nic: Link = None
    ualoe: Link = None
    cores: Count = None


class SystemFile(Identity):
    """A server or rack."""

    kind: Literal["system"]
    gpu: Part | None = None
    cpu: Part | None = None
    power: PowerField | None = None
    prices: Prices | None = None
    totals: Totals | None = None
    anchors: Named = Field(default_factory=dict)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a profile file, for editors."""
    from pydantic import TypeAdapter

    form: Any = TypeAdapter(Annotated[DeviceFile | SystemFile, Field(union_mode="smart")]).json_schema()
    defaults = {
        "type": "object",
        "additionalProperties": False,
        "description": "provenance of the figures that do not state their own",
        "properties": {
            "source": {"type": ["string", "array"]},
            "date": {"type": ["string", "integer"]},
            "confidence": {"enum": ["high", "medium", "low"]},
        },
    }
    for name, made in form["$defs"].items():
        if name in ("DeviceFile", "SystemFile"):
            made["properties"]["extends"] = {"type": "string", "description": "profile or family to take over"}
            made["properties"]["defaults"] = defaults
        elif name in ("Compute", "Memory", "PerSm", "Links", "PowerField", "Prices", "Totals"):
            made["properties"]["defaults"] = defaults
    form["title"] = "roofcast hardware profile"
    return form
