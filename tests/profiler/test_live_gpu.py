# The names of the fake are NVML's.
# ruff: noqa: N802
"""NVML's answers become what profiles are matched by; missing answers are no errors. No real GPU is asked."""

from types import SimpleNamespace
from typing import Any

import pytest
from roofcast.hwprofiles.identity import identify_gpu
from roofcast.profiler.live_gpu import observe_gpu, observe_gpus


class FakeNvmlError(Exception):
    pass


class FakeNvml:
    """Two GPUs; the second may be divided into MIG slices. ``broken`` questions raise."""

    NVML_CLOCK_SM = 1
    NVML_DEVICE_MIG_ENABLE = 1

    def __init__(self, *, mig: bool = False, broken: tuple[str, ...] = ()) -> None:
        self.mig, self.broken, self.open = mig, broken, 0

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in object.__getattribute__(self, "broken"):

            def refuse(*_: object) -> object:
                raise FakeNvmlError(name)

            return refuse
        return object.__getattribute__(self, name)

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return f"gpu{index}"

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return b"NVIDIA A100-SXM4-40GB" if handle == "gpu0" else b"NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return {"gpu0": "GPU-aaaa", "gpu1": "GPU-bbbb"}.get(handle, f"MIG-{handle}")

    def nvmlDeviceGetNumGpuCores(self, handle: str) -> int:
        return 6912 if handle == "gpu0" else 16896

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, int]:
        return (8, 0) if handle == "gpu0" else (9, 0)

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(total={"gpu0": 40960 << 20, "gpu1": 81559 << 20}.get(handle, 40448 << 20))

    def nvmlDeviceGetMemoryBusWidth(self, handle: str) -> int:
        return 5120

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:
        return 250_000 if handle == "gpu0" else 700_000

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: str) -> int:
        return 400_000 if handle == "gpu0" else 700_000

    def nvmlDeviceGetMaxClockInfo(self, handle: str, kind: int) -> int:
        return 1410 if handle == "gpu0" else 1980

    def nvmlDeviceGetApplicationsClock(self, handle: str, kind: int) -> int:
        return 1410 if handle == "gpu0" else 1980

    def nvmlDeviceGetMigMode(self, handle: str) -> tuple[int, int]:
        return (1, 1) if self.mig and handle == "gpu1" else (0, 0)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:
        if index > 1:
            raise FakeNvmlError("not found")
        return f"slice{index}"

    def nvmlDeviceGetAttributes(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(multiprocessorCount=60, gpuInstanceSliceCount=3)


def test_whole_gpus() -> None:
    nvml = FakeNvml()
    a100, h100 = observe_gpus(nvml)
    assert nvml.open == 0
    assert (a100.name, a100.sms, a100.memory_mib, a100.compute_capability) == (
        "NVIDIA A100-SXM4-40GB",
        108,
        40960,
        (8, 0),
    )
    assert h100.sms == 132
    found = identify_gpu(a100)
    assert found.profile is not None
    assert found.profile.name == "a100-sxm-40gb"
    assert "250 of 400 W" in found.words[0]
    assert identify_gpu(h100).words == ()


def test_mig_slices_replace_their_gpu() -> None:
    gpus = observe_gpus(FakeNvml(mig=True))
    assert [gpu.uuid for gpu in gpus] == ["GPU-aaaa", "MIG-slice0", "MIG-slice1"]
    assert gpus[1].mig_slices == (3, 4)
    found = identify_gpu(gpus[1])
    assert found.profile is not None
    assert found.profile.name == "h100-sxm"
    assert found.scale["rate"] == pytest.approx(60 / 132)


def test_a_gpu_is_found_by_uuid_not_by_index() -> None:
    for uuid in ("GPU-bbbb", "bbbb", "gpu-BBBB"):
        gpu = observe_gpu(uuid, FakeNvml())
        assert gpu is not None
        assert gpu.name == "NVIDIA H100 80GB HBM3"
    assert observe_gpu("GPU-cccc", FakeNvml()) is None


@pytest.mark.parametrize(
    "question",
    [name for name in dir(FakeNvml) if name.startswith("nvml") and name not in ("nvmlShutdown", "nvmlDeviceGetName")],
)
def test_a_question_that_is_not_supported_is_no_error(question: str) -> None:
    for gpu in observe_gpus(FakeNvml(broken=(question,))):
        assert identify_gpu(gpu).seen
    for gpu in observe_gpus(FakeNvml(broken=(question,), mig=True)):
        assert identify_gpu(gpu).seen


def test_without_a_driver_there_is_no_gpu() -> None:
    assert observe_gpus(FakeNvml(broken=("nvmlInit",))) == []
