"""Machine facts from fake /proc and /sys trees, and from this machine."""

import json
from pathlib import Path

import pytest
from roofcast.profiler import cgroup, cpu_facts, cpu_topology, gpu_facts, machine, microarchitecture
from roofcast.profiler.host_text import count_cpus
from roofcast.profiler.software import code_commit

EPYC = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC 9654
cpu MHz\t\t: 2596.132
flags\t\t: fma avx2 avx512f avx512_vnni avx512_bf16 hypervisor

processor\t: 1
vendor_id\t: Other
"""
GRACE = "processor\t: 0\nFeatures\t: asimd asimddp sve sve2 bf16 i8mm\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def cache_files(index: int, level: int, kind: str, size: str, shared: str) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu0/cache/index{index}"
    values = {"level": level, "type": kind, "size": size, "shared_cpu_list": shared, "coherency_line_size": 64}
    return {f"{folder}/{name}": f"{value}\n" for name, value in values.items()}


@pytest.mark.parametrize(("text", "count"), [("0", 1), ("0-3,8,10-11\n", 7), ("", 0), ("0-x", 0), ("0-1,2-3", 4)])
def test_kernel_cpu_lists(text: str, count: int) -> None:
    assert count_cpus(text.strip()) == count


def test_quota_v2_takes_the_smallest_of_the_groups_above(tmp_path: Path) -> None:
    base = "sys/fs/cgroup"
    files = {
        "proc/self/cgroup": "0::/a/b\n",
        f"{base}/cpu.max": "max 100000\n",
        f"{base}/a/cpu.max": "150000 100000\n",
        f"{base}/a/b/cpu.max": "max 100000\n",
        f"{base}/a/memory.max": "1073741824\n",
        f"{base}/a/b/memory.max": "max\n",
    }
    root = write(tmp_path, files)
    assert cgroup.cpu_quota(root) == 1.5
    assert cgroup.memory_limit_bytes(root) == 1 << 30


def test_quota_v1_in_a_container_whose_group_path_is_not_visible(tmp_path: Path) -> None:
    base = "sys/fs/cgroup"
    files = {
        "proc/self/cgroup": "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n",
        f"{base}/cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
        f"{base}/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        f"{base}/memory/memory.limit_in_bytes": "9223372036854771712\n",
    }
    root = write(tmp_path, files)
    assert cgroup.cpu_quota(root) == 2.5
    assert cgroup.memory_limit_bytes(root) is None


@pytest.mark.parametrize(
    ("quota", "affinity", "allowed"), [("50000", 8, 1), ("250000", 8, 2), ("-1", 8, 8), ("900000", 2, 2)]
)
def test_allowed_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, affinity: int, allowed: int
) -> None:
    files = {"proc/self/cgroup": "1:cpu:/\n"}
    files |= {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": quota, "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}
    monkeypatch.setattr(cgroup, "affinity_cores", lambda: affinity)
    assert cgroup.allowed_cores(write(tmp_path, files)) == allowed


def test_no_proc_and_no_sys_give_a_machine_all_the_same(tmp_path: Path) -> None:
    found = machine.inspect_machine(tmp_path)
    assert found.allowed_cores >= 1
    assert found.caches == ()
    assert found.last_level_cache is None
    assert found.last_level_bytes() is None
    assert found.simd_bits in (64, 128)
    assert found.cpu_model
    json.dumps(found.as_dict(), allow_nan=False)


def test_x86_machine_in_a_virtual_machine(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": EPYC, "sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}
    files |= cache_files(0, 1, "Data", "32K", "0")
    files |= cache_files(1, 1, "Instruction", "32K", "0")
    files |= cache_files(2, 2, "Unified", "1024K", "0")
    files |= cache_files(3, 3, "Unified", "32M", "0-7")
    found = machine.inspect_machine(write(tmp_path, files))
    assert (found.cpu_model, found.microarchitecture, found.hypervisor) == ("AMD EPYC 9654", "Zen 4", "Amazon EC2")
    assert (found.simd_bits, found.fma_pipes, found.fma_pipe_bits) == (512, 2, 256)
    assert found.simd_flags == ("avx2", "fma", "avx512", "avx512_vnni", "avx512_bf16")
    assert [cache.level for cache in found.caches] == [1, 2, 3]
    assert found.caches[2] == machine.Cache(3, "unified", 32 << 20, 8)
    assert found.clock_hz == pytest.approx(2.596132e9)
    assert found.cache_bytes(2) == 1 << 20


def test_arm_server(tmp_path: Path) -> None:
    root = write(tmp_path, {"proc/cpuinfo": GRACE, "proc/sys/abi/sve_default_vector_length": "16\n"})
    fields = cpu_facts.cpuinfo_fields(root)
    identity, flags = cpu_facts.cpu_identity(fields), cpu_facts.simd_flags(fields)
    assert identity.model == "Arm Neoverse V2"
    assert flags == ("neon", "dotprod", "arm_bf16", "i8mm", "sve", "sve2")
    assert cpu_facts.simd_bits(flags, "aarch64", root) == 128
    known = microarchitecture.identify(identity, flags)
    assert known is not None
    assert (known.fma_pipes, known.fma_pipe_bits) == (4, 128)
    assert cpu_facts.hypervisor(fields, root) is None


def test_a_virtual_machine_that_hides_avx512_has_narrower_pipes() -> None:
    identity = cpu_facts.CpuIdentity("Xeon", "GenuineIntel", 6, 0x8F)
    known = microarchitecture.identify(identity, ("avx2",))
    assert known is not None
    assert known.fma_pipe_bits == 256
    assert microarchitecture.identify(cpu_facts.CpuIdentity("new", "GenuineIntel", 6, 0xFFF), ()) is None


def test_hybrid_cores(tmp_path: Path) -> None:
    intel = write(tmp_path / "a", {"sys/devices/cpu_core/cpus": "0-15\n", "sys/devices/cpu_atom/cpus": "16-31\n"})
    assert [(kind.name, kind.count) for kind in cpu_topology.core_kinds(intel)] == [
        ("performance", 16),
        ("efficiency", 16),
    ]
    capacities = {f"sys/devices/system/cpu/cpu{n}/cpu_capacity": "1024" if n < 2 else "446" for n in range(6)}
    arm = write(tmp_path / "b", capacities)
    assert [kind.count for kind in cpu_topology.core_kinds(arm)] == [2, 4]
    alike = write(tmp_path / "c", {"sys/devices/system/cpu/cpu0/cpu_capacity": "1024"})
    assert cpu_topology.core_kinds(alike) == ()


def test_amd_gpu_through_the_kernel(tmp_path: Path) -> None:
    node = "sys/class/kfd/kfd/topology/nodes"
    files = {
        f"{node}/0/properties": "simd_count 0\ncpu_cores_count 64\n",
        f"{node}/1/properties": "simd_count 1216\ngfx_target_version 90402\nunique_id 255\n"
        "max_engine_clk_fcompute 2100\n",
        f"{node}/1/name": "ip discovery\n",
        f"{node}/1/mem_banks/0/properties": "heap_type 1\nsize_in_bytes 205822885888\n",
    }
    (gpu,) = gpu_facts._through_kfd(write(tmp_path, files))
    assert (gpu.compile_target, gpu.memory_bytes, gpu.clock_max_hz) == ("gfx942", 205822885888, 2.1e9)
    assert gpu.uuid == "GPU-00000000000000ff"


@pytest.mark.parametrize(
    ("setting", "visible"),
    [(None, True), ("", False), ("1", True), ("0,1", True), ("0,-1,1", False), ("GPU-ab", True), ("GPU-cd,0", False)],
)
def test_cuda_visible_devices(setting: str | None, visible: bool) -> None:
    assert gpu_facts.is_visible(1, "GPU-abcd", setting) is visible


def test_nvml_answers_become_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    class Memory:
        total = 141 << 30

    def refuses(*_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: b"580.1",
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetMemoryInfo": lambda handle: Memory,
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
        "nvmlDeviceGetEnforcedPowerLimit": refuses,
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: 1980,
        "nvmlDeviceGetUUID": lambda handle: "GPU-1",
        "nvmlDeviceGetName": lambda handle: b"NVIDIA H200",
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found, note = gpu_facts.find_gpus(Path("/nonexistent"))
    assert note == ""
    assert found == (
        gpu_facts.Gpu("GPU-1", "NVIDIA H200", "NVIDIA", 141 << 30, "sm_90", "580.1", None, 1.98e9, 1.98e9, True),
    )


def test_this_machine() -> None:
    found = machine.inspect_machine()
    assert found.allowed_cores <= found.affinity_cores <= found.logical_cores
    assert 0 < found.usable_memory_bytes <= found.memory_bytes
    assert found.gpus or found.gpu_note
    assert found.software["python"].startswith("3.")


def test_commit_of_a_checkout(tmp_path: Path) -> None:
    import subprocess

    assert code_commit(tmp_path) == ""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    (tmp_path / "f").write_text("1")
    for command in (["init", "-q"], ["add", "f"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    code_commit.cache_clear()
    clean = code_commit(tmp_path)
    assert len(clean) == 40
    (tmp_path / "f").write_text("2")
    code_commit.cache_clear()
    assert code_commit(tmp_path) == f"{clean}+dirty"
    code_commit.cache_clear()
