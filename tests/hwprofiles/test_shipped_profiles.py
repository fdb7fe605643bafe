"""The shipped table: headline figures by hand, and what holds for every file."""

import subprocess
import sys

import pytest
from roofcast.hwprofiles import DeviceProfile, SystemProfile, load, load_device, names, to_frame
from roofcast.hwprofiles.crosscheck import audit

# (profile, figure, value, low, high) in SI units, checked by hand against the makers' pages and device queries.
HEADLINES = [
    ("rubin", "compute.matrix.nvfp4", 35e15, 35e15, 35e15),
    ("rubin", "compute.matrix_sparse.nvfp4", 50e15, 50e15, 50e15),
    ("rubin", "compute.matrix.bf16", 4e15, 4e15, 4e15),
    ("rubin", "compute.matrix.fp8", 17.5e15, 17.5e15, 17.5e15),
    ("rubin", "memory.dram.bandwidth", 19.2e12, 19.2e12, 22e12),
    ("rubin", "memory.dram.capacity", 288e9, 288e9, 288e9),
    ("rubin", "compute.sms", 212, 212, 224),
    ("rubin", "per_sm.warps", 32, 32, 32),
    ("rubin", "per_sm.threads", 1024, 1024, 1024),
    ("rubin", "per_sm.blocks", 16, 16, 16),
    ("rubin", "per_sm.shared_memory", 228 * 1024, 228 * 1024, 228 * 1024),
    ("rubin", "per_sm.shared_memory_oversized", 328 * 1024, 328 * 1024, 328 * 1024),
    ("rubin", "per_sm.tensor_memory", 576 * 128 * 4, 576 * 128 * 4, 576 * 128 * 4),
    ("rubin", "links.nvlink", 1.5e12, 1.5e12, 1.8e12),
    ("rubin", "links.nic", 200e9, 200e9, 200e9),
    ("rubin", "power.tdp", 1800, 1800, 2300),
    ("rubin", "compute.exp_per_clock.fp32", 32, 32, 32),
    ("rubin", "compute.exp_per_clock.bf16", 64, 64, 64),
    ("rubin-hgx", "memory.dram.bandwidth", 16.25e12, 16.25e12, 22e12),
    ("b200", "compute.matrix.bf16", 2.25e15, 2.25e15, 2.25e15),
    ("b200", "compute.matrix.nvfp4", 9e15, 9e15, 9e15),
    ("b200", "compute.matrix.int8", 4.5e15, 4.5e15, 4.5e15),
    ("b200", "memory.dram.bandwidth", 7.67e12, 7.67e12, 8e12),
    ("b200", "memory.l2.capacity", 132_644_864, 132_644_864, 132_644_864),
    ("b200", "memory.l2.bandwidth", 13.3e12, 13.3e12, 13.3e12),
    ("b200", "compute.sms", 148, 148, 148),
    ("b200", "power.tdp", 1000, 1000, 1000),
    ("gb200", "compute.sms", 152, 148, 152),
    ("gb200", "compute.matrix.nvfp4", 10e15, 10e15, 10e15),
    ("gb200", "memory.dram.bandwidth", 8e12, 8e12, 8e12),
    ("b300", "compute.matrix.nvfp4", 14e15, 13.5e15, 14e15),
    ("b300", "compute.vector.fp64", 1.2e12, 1.2e12, 1.2e12),
    ("gb300", "compute.matrix.nvfp4", 15e15, 15e15, 15e15),
    ("gb300", "compute.matrix.int8", 0.165e15, 0.165e15, 0.165e15),
    ("gb300", "compute.exp_per_clock.fp32", 32, 32, 32),
    ("h100-sxm", "memory.dram.bandwidth", 3.35e12, 3.35e12, 3.35e12),
    ("h100-sxm", "compute.matrix.bf16", 989.4e12, 989.4e12, 989.4e12),
    ("h100-sxm", "links.nvlink", 450e9, 450e9, 450e9),
    ("h100-pcie", "memory.dram.bandwidth", 2e12, 2e12, 2e12),
    ("h200-sxm", "memory.dram.bandwidth", 4.8e12, 4.8e12, 4.8e12),
    ("a100-pcie-80gb", "memory.dram.bandwidth", 1935e9, 1935e9, 1935e9),
    ("mi355x", "compute.matrix.mxfp4", 10066e12, 10066e12, 10066e12),
    ("vera", "memory.dram.bandwidth", 1.2e12, 1.2e12, 1.2e12),
    ("vera", "compute.cores", 88, 88, 88),
    ("grace", "compute.cores", 72, 72, 72),
    ("vera-rubin-nvl72", "power.rack", 190e3, 185e3, 230e3),
    ("vera-rubin-nvl72", "totals.matrix.nvfp4", 2520e15, 2520e15, 2520e15),
    ("vera-rubin-nvl72", "totals.nvlink", 108e12, 108e12, 130e12),
    ("gb200-nvl72", "power.rack", 132e3, 120e3, 132e3),
]


@pytest.mark.parametrize(("name", "path", "value", "low", "high"), HEADLINES)
def test_headline(name: str, path: str, value: float, low: float, high: float) -> None:
    figure = load(name).figures()[path]
    assert (figure.value, figure.low, figure.high) == pytest.approx((value, low, high), rel=1e-12)


def test_compile_targets() -> None:
    wanted = {"rubin": "sm_107", "gb300": "sm_103", "b200": "sm_100", "h100": "sm_90", "a100": "sm_80"}
    wanted |= {"rtx-5090": "sm_120", "mi300x": "gfx942", "mi355x": "gfx950", "l40s": "sm_89", "gb10": "sm_121"}
    assert {name: load_device(name).compile_target for name in wanted} == wanted


def test_every_file_passes_the_check_and_explains_its_disagreements() -> None:
    found = audit()
    assert found.problems == []
    assert found.unexplained == []
    assert found.files == len(names()) >= 50
    assert found.comparisons > 150
    # If nothing ever disagreed the check would not be looking.
    assert len(found.disagreements) >= 20
    assert found.figures >= 1000
    assert len(found.sources) >= 70


@pytest.mark.parametrize("name", names())
def test_every_figure_has_its_source(name: str) -> None:
    profile = load(name)
    for path, figure in profile.figures().items():
        assert set(figure.sources) <= set(profile.sources), path
        assert figure.low <= figure.value <= figure.high, path
        assert figure.date, path
        if "recalled" in figure.sources:
            assert figure.confidence != "high", path
        if figure.sources == ("derived",):
            assert figure.note or figure.confidence != "high", path
    assert profile.status != "cancelled" or profile.notices


@pytest.mark.parametrize("name", names("gpu"))
def test_gpu_ceilings_are_consistent(name: str) -> None:
    profile = load(name)
    assert isinstance(profile, DeviceProfile)
    ceilings = profile.ceilings()
    if profile.status == "cancelled" or name == "rubin-ultra":
        return
    assert {"dram.read", "dram.write", "dram.copy", "dram.triad"} <= ceilings.keys()
    assert profile.capacities()["dram"].unit == "bytes"
    ladder = [f"matrix.{p}" for p in ("fp64", "tf32", "bf16", "fp8", "nvfp4")]
    values = [ceilings[rung].value for rung in ladder if rung in ceilings]
    assert values == sorted(values), "a narrower type is never slower on matrix units"
    for rung in ("nvfp4", "fp8", "bf16"):
        if f"matrix_sparse.{rung}" in ceilings and f"matrix.{rung}" in ceilings:
            ratio = ceilings[f"matrix_sparse.{rung}"].value / ceilings[f"matrix.{rung}"].value
            assert 1.2 < ratio <= 2.2
    if "l2.read" in ceilings:
        assert ceilings["l2.read"].value > ceilings["dram.read"].value


def test_exponentials_follow_from_sms_and_clock() -> None:
    assert load_device("rubin").ceilings()["exp.fp32"].value == pytest.approx(32 * 212 * 2.376e9)
    assert load_device("rubin").ceilings()["exp.bf16"].high == pytest.approx(64 * 224 * 2.384e9)
    h100 = load_device("h100").ceilings()["exp.fp32"]
    # FlashAttention-3 states 3.9 T/s.
    assert h100.low <= 3.9e12 <= h100.high
    for name in ("gb200", "gb300"):
        device = load_device(name)
        assert device.anchors()["exp.fp32"].value <= device.ceilings()["exp.fp32"].high


def test_cpu_rates_follow_from_cores_and_clock() -> None:
    rate = load_device("epyc-9965").ceilings()["vector.fp32"]
    assert rate.value == pytest.approx(192 * 3.35e9 * 64)
    assert rate.confidence == "low"
    assert "vector.fp32" not in load_device("vera").ceilings(), "NVIDIA publishes no clock, so there is no rate"
    assert load_device("vera").gaps()["compute.clock.boost"].state == "unknown"


def test_system_carries_its_overrides() -> None:
    system = load("dgx-rubin-nvl8")
    assert isinstance(system, SystemProfile)
    assert system.gpu is not None
    bandwidth = system.gpu.ceilings()["dram.read"]
    assert (bandwidth.value, bandwidth.low) == (22e12, 16.25e12)
    assert bandwidth.source in system.sources
    assert load_device("rubin-hgx").ceilings()["dram.read"].value == 16.25e12


def test_system_prices_are_those_of_its_gpu_and_its_own_purchase() -> None:
    system = load("gb300-nvl72")
    assert isinstance(system, SystemProfile)
    assert system.prices()["rental_3y"].typical == 3.96
    assert system.prices()["purchase"].unit == "USD"
    assert system.prices()["purchase"].low == 3.4e6
    on_demand = load("h100").prices()["on_demand"]
    assert (on_demand.low, on_demand.typical, on_demand.high, on_demand.unit) == (1.99, 2.95, 6.88, "USD/h")


def test_variants_do_not_take_over_prices_or_measurements() -> None:
    assert load("gh200-144gb").anchors() == {}
    assert load("rubin-hgx").prices() == {}


def test_frame() -> None:
    frame = to_frame("system")
    assert set(frame["profile"]) == set(names("system"))
    assert {"figure", "value", "low", "high", "unit", "sources", "date", "confidence"} <= set(frame.columns)
    assert (frame["low"] <= frame["high"]).all()


def test_loading_a_profile_needs_neither_pint_nor_pandas() -> None:
    code = (
        "import sys; from roofcast.hwprofiles import load; load('vera-rubin-nvl72').gpu.ceilings();"
        "print(sorted({'pint', 'pandas', 'numpy', 'scipy'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
