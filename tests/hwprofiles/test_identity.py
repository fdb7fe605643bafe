"""A live device gets a profile only if everything it shows fits, and its state changes what holds."""

import dataclasses

import pytest
from roofcast.hwprofiles.identity import ObservedCpu, ObservedGpu, identify_cpu, identify_gpu

H100 = ObservedGpu(
    "NVIDIA H100 80GB HBM3", "GPU-1", 132, 81559, 5120, (9, 0), power_limit_w=700.0, power_default_w=700.0
)


@pytest.mark.parametrize(
    ("observed", "name"),
    [
        (H100, "h100-sxm"),
        (ObservedGpu("NVIDIA H100 PCIe", sms=114, memory_mib=81559, bus_bits=5120), "h100-pcie"),
        (ObservedGpu("NVIDIA H100 NVL", sms=132, memory_mib=95830, bus_bits=6016), "h100-nvl"),
        (ObservedGpu("NVIDIA H200", sms=132, memory_mib=143771, bus_bits=6144), "h200-sxm"),
        (ObservedGpu("NVIDIA A100-SXM4-40GB", sms=108, memory_mib=40960, bus_bits=5120), "a100-sxm-40gb"),
        (ObservedGpu("NVIDIA A100 80GB PCIe", sms=108, memory_mib=81920, bus_bits=5120), "a100-pcie-80gb"),
        (ObservedGpu("NVIDIA B200", sms=148, memory_mib=183359, bus_bits=7680, compute_capability=(10, 0)), "b200-hgx"),
        (ObservedGpu("NVIDIA B300 SXM6 AC", sms=148, memory_mib=275040, compute_capability=(10, 3)), "b300-hgx"),
        (ObservedGpu("NVIDIA GB200", sms=152, memory_mib=189471), "gb200"),
        (ObservedGpu("NVIDIA GB300", sms=152, memory_mib=284208), "gb300"),
        (ObservedGpu("NVIDIA L40S", sms=142, memory_mib=46068, bus_bits=384), "l40s"),
        (ObservedGpu("NVIDIA GeForce RTX 5090", sms=170, memory_mib=32607), "rtx-5090"),
        (ObservedGpu("NVIDIA GH200 480GB", sms=132, memory_mib=97280), "gh200"),
        (ObservedGpu("NVIDIA GH200 144G HBM3e", sms=132, memory_mib=147200), "gh200-144gb"),
        (ObservedGpu("NVIDIA RTX PRO 6000 Blackwell Server Edition", sms=188, memory_mib=97887), "rtx-pro-6000-server"),
        (ObservedGpu("NVIDIA GB10", sms=48), "gb10"),
        (ObservedGpu("NVIDIA L40S"), "l40s"),
    ],
)  # fmt: skip
def test_known_gpus(observed: ObservedGpu, name: str) -> None:
    found = identify_gpu(observed)
    assert (found.status, found.profile and found.profile.name) == ("match", name)
    assert found.words == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sms": 114}, "114 SMs, the profile has 132"),
        ({"memory_mib": 40960}, "40960 MiB"),
        ({"bus_bits": 6144}, "bus of 6144 bit"),
        ({"compute_capability": (8, 0)}, "compute capability 8.0"),
        ({"name": "NVIDIA H100 64GB HBM2"}, "no profile has this name"),
        ({"name": "GH100"}, "which is no proof"),
        ({"name": "NVIDIA GeForce RTX 4090 Laptop GPU", "sms": 76, "memory_mib": 16376, "bus_bits": 256}, "no profile"),
    ],
)
def test_a_partial_match_is_unknown(change: dict[str, object], says: str) -> None:
    found = identify_gpu(dataclasses.replace(H100, **change))
    assert found.status == "unknown"
    assert found.profile is None
    assert found.ceilings() == {}
    assert says in found.words[0]
    assert "roofcast hw probe" in found.words[0]
    assert str(change.get("sms", H100.sms)) in found.seen


def test_mig_slice_scales_rates_and_memory() -> None:
    name = "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
    observed = dataclasses.replace(H100, name=name, sms=60, memory_mib=40448, mig_slices=(3, 4))
    found = identify_gpu(observed)
    assert found.profile is not None
    whole, part = found.profile.ceilings(), found.ceilings()
    assert part["matrix.bf16"].value == pytest.approx(whole["matrix.bf16"].value * 60 / 132)
    assert part["dram.read"].value == pytest.approx(whole["dram.read"].value / 2)
    assert part["l2.read"].value == pytest.approx(whole["l2.read"].value / 2)
    assert "link.nvlink" not in part
    assert "MIG slice" in part["matrix.bf16"].note


def test_power_cap_widens_rates_downwards() -> None:
    found = identify_gpu(dataclasses.replace(H100, power_limit_w=350.0))
    assert found.profile is not None
    whole, capped = found.profile.ceilings()["matrix.bf16"], found.ceilings()["matrix.bf16"]
    assert capped.value == whole.value
    assert capped.low == pytest.approx(whole.low / 2)
    assert capped.confidence == "low"
    assert found.ceilings()["dram.read"] == found.profile.ceilings()["dram.read"]
    assert "350 of 700 W" in found.words[0]


def test_lowered_clock_scales_rates() -> None:
    found = identify_gpu(dataclasses.replace(H100, clock_limit_hz=990e6, clock_max_hz=1980e6))
    assert found.profile is not None
    assert found.ceilings()["matrix.bf16"].value == pytest.approx(found.profile.ceilings()["matrix.bf16"].value / 2)
    assert "990 MHz" in found.words[0]


def test_another_bin_of_a_matched_gpu_scales_rates() -> None:
    found = identify_gpu(ObservedGpu("NVIDIA GB300", sms=148, memory_mib=284208))
    assert found.profile is not None
    assert found.ceilings()["matrix.nvfp4"].value == pytest.approx(15e15 * 148 / 152)


def test_cpu_rates_follow_the_usable_cores() -> None:
    found = identify_cpu(ObservedCpu("AMD EPYC 9654 96-Core Processor", cores=96, usable_cores=2.5))
    assert found.profile is not None
    whole = found.profile.ceilings()
    assert found.ceilings()["vector.fp32"].value == pytest.approx(whole["vector.fp32"].value * 2.5 / 96)
    assert found.ceilings()["dram.read"].value == whole["dram.read"].value
    assert any("others may share" in word for word in found.words)


def test_two_sockets_have_twice_the_bandwidth() -> None:
    found = identify_cpu(ObservedCpu("AMD EPYC 9654 96-Core Processor", cores=192, usable_cores=192))
    assert found.profile is not None
    assert found.ceilings()["dram.read"].value == 2 * found.profile.ceilings()["dram.read"].value
    assert found.ceilings()["vector.fp32"].value == 2 * found.profile.ceilings()["vector.fp32"].value


def test_hybrid_cores_count_the_fast_ones() -> None:
    observed = ObservedCpu("INTEL(R) XEON(R) PLATINUM 8592+", cores=64, usable_cores=64, performance_cores=8)
    found = identify_cpu(observed)
    assert found.scale["rate"] == 8 / 64
    assert any("hybrid" in word for word in found.words)


@pytest.mark.parametrize(("cores", "name"), [(72, "grace"), (144, "grace"), (96, "graviton4"), (4, None)])
def test_cores_tell_cpus_of_one_name_apart(cores: int, name: str | None) -> None:
    found = identify_cpu(ObservedCpu("Neoverse-V2", cores=cores, usable_cores=cores))
    assert (found.profile.name if found.profile else None) == name


def test_unknown_cpu() -> None:
    found = identify_cpu(ObservedCpu("AMD EPYC", cores=2, usable_cores=2))
    assert found.status == "unknown"
    assert "AMD EPYC" in found.seen
    assert "hw probe" in found.words[0]
