"""Devices: the CPU's flush is seen to work; a GPU is driven through a simulated torch."""

import contextlib
import dataclasses
import math
import sys
import types

import pytest
from roofcast.profiler.cpu_device import CpuDevice
from roofcast.profiler.cuda_device import CudaDevice
from roofcast.profiler.devices import DeviceError, flush_evidence, get_device
from roofcast.profiler.measuring import measure


def test_flush_reaches_the_cache():
    device = get_device("cpu")
    assert set(flush_evidence(device)) == {"warm_s", "cold_s", "effective"}
    # What else runs on the machine evicts the buffer too, so the least of many is taken on both sides: a flush that
    # did nothing would have the least of its reads warm.
    warm, cold = math.inf, math.inf
    for _ in range(24):
        times = device.verify_flush()
        warm, cold = min(warm, times["warm_s"]), min(cold, times["cold_s"])
        if cold > 1.5 * warm:
            break
    assert cold > 1.15 * warm


def test_unknown_device_is_refused():
    with pytest.raises(DeviceError, match="known are cpu"):
        get_device("tpu")


def test_short_calls_are_batched_and_rotate_when_cold(toy, fast, monkeypatch):
    (warm,) = measure(toy("double", n=8), fast)
    assert warm.status == "ok"
    assert warm.calls_per_sample > 1
    assert warm.method["overhead_subtracted"] is True
    monkeypatch.setattr(CpuDevice, "shortest_s", lambda self: 0.002)
    (cold,) = measure(toy("double", n=8, cache_state="cold"), fast)
    assert cold.calls_per_sample > 1
    assert cold.method["cold_by"] == "rotation"
    assert cold.method["rotation_exceeds_cache"] is False


def test_rotation_on_request_exceeds_the_cache(toy, fast):
    n = get_device("cpu").cache_bytes // 32
    settings = dataclasses.replace(fast, cold_by="rotation")
    (row,) = measure(toy("double", n=n, cache_state="cold"), settings)
    assert row.status == "ok"
    assert row.method["rotating_copies"] * 4 * n >= 4 * get_device("cpu").cache_bytes
    assert row.method["rotation_exceeds_cache"] is True


class FakeGpu:
    """The part of torch that `CudaDevice` uses, with a device clock that advances by what is launched."""

    def __init__(self, capturable=True):
        gpu = self
        self.now_s = 0.0
        self.graphs = 0
        self.captured = None
        self.flushes = 0

        class Event:
            def __init__(self, enable_timing):
                self.at_s = None

            def record(self):
                self.at_s = gpu.now_s
                gpu.now_s += 1e-6  # Recording takes time, which is the overhead to subtract.

            def synchronize(self):
                pass

            def elapsed_time(self, end):
                return (end.at_s - self.at_s) * 1e3

        class Graph:
            def replay(self):
                gpu.now_s += sum(self.kernels)

        @contextlib.contextmanager
        def graph(captured):
            if not capturable:
                raise RuntimeError("operation not permitted when stream is capturing")
            gpu.captured = []
            yield
            captured.kernels, gpu.captured = gpu.captured, None
            gpu.graphs += 1

        stream = types.SimpleNamespace(wait_stream=lambda other: None)
        self.cuda = types.SimpleNamespace(
            is_available=lambda: True,
            device_count=lambda: 1,
            set_device=lambda index: None,
            get_device_properties=lambda index: types.SimpleNamespace(name="Simulated", L2_cache_size=50 << 20),
            Event=Event,
            CUDAGraph=Graph,
            graph=graph,
            Stream=lambda: stream,
            current_stream=lambda: stream,
            stream=lambda s: contextlib.nullcontext(),
            synchronize=lambda: None,
            _sleep=lambda cycles: gpu.launch(50e-6),
        )
        self.int32 = "int32"
        self.__version__ = "simulated"

    def device(self, name):
        return types.SimpleNamespace(index=int(name.partition(":")[2] or 0))

    def launch(self, seconds):
        if self.captured is not None:
            self.captured.append(seconds)
        else:
            self.now_s += seconds

    def zeros(self, n, device):
        return types.SimpleNamespace(add_=lambda value: self.launch(2e-6))

    def ones(self, n, dtype=None, device=None):
        def sweep(value=None):
            self.flushes += 1
            self.launch(30e-6)

        return types.SimpleNamespace(add_=sweep, max=lambda: self.launch(20e-6), sum=lambda: self.launch(5e-6))


@pytest.fixture
def fake_gpu(monkeypatch):
    def make(**options):
        gpu = FakeGpu(**options)
        monkeypatch.setitem(sys.modules, "torch", gpu)
        return gpu, CudaDevice("cuda:0")

    return make


@pytest.mark.parametrize("capturable", [True, False])
def test_device_time_is_the_kernels_alone(fake_gpu, capturable):
    gpu, device = fake_gpu(capturable=capturable)
    sample = device.sampler([lambda: gpu.launch(100e-6)] * 3)
    device.flush()
    timing = sample()
    assert timing.device_s - device.overhead_s() == pytest.approx(300e-6)
    assert device.overhead_s() == pytest.approx(1e-6)
    assert timing.host_s > 0
    assert gpu.graphs == (1 if capturable else 0)
    assert gpu.flushes == 1


def test_gpu_facts(fake_gpu):
    _, device = fake_gpu()
    assert (device.name, device.title, device.cache_bytes) == ("cuda:0", "Simulated", 50 << 20)
    assert device.method["timer_overhead_s"] == pytest.approx(1e-6)
    assert device.shortest_s() == pytest.approx(50e-6)
    assert device.method["launch_overhead_s"] > 0
    assert device.verify_flush()["warm_s"] == pytest.approx(6e-6)
    with pytest.raises(DeviceError, match="there are 1 GPUs"):
        CudaDevice("cuda:3")


def test_no_gpu_is_a_clear_message():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(DeviceError, match="finds no GPU"):
        CudaDevice("cuda:0")
