"""A GPU as a device, through torch: device time by events, launches replayed from a graph, cache flush.

``torch.cuda`` also drives AMD GPUs under ROCm; everything used here exists on both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from .clock import NEGLIGIBLE, clock_facts, now_ns
from .devices import DeviceError, Run, Timing
from .statistics import median

if TYPE_CHECKING:
    import torch

# Events tick in about half a microsecond; what they show of an empty span is measured and subtracted.
_EVENT_RESOLUTION_S = 0.5e-6
_READINGS = 101
_SWEEP_FACTOR = 2
# The device is held busy while the host submits the work: twice as long as that took the last time, within limits.
_LEAST_HOLD_S, _LONGEST_HOLD_S = 50e-6, 10e-3
# No GPU's clock is faster by much, so that this many cycles last at least the time asked for.
_HOLD_CYCLES_PER_S = 2.5e9
_WARM_UPS_BEFORE_CAPTURE = 3


class CudaDevice:
    """One GPU. Work is timed on the stream that torch uses at that moment."""

    def __init__(self, name: str) -> None:
        try:
            import torch
        except ImportError as error:
            raise DeviceError(f"device {name!r} needs torch ({error}); install torch with CUDA or ROCm") from None
        if not torch.cuda.is_available():
            raise DeviceError(f"device {name!r}: torch {torch.__version__} finds no GPU; see roofcast doctor")
        index = torch.device(name).index or 0
        if index >= torch.cuda.device_count():
            raise DeviceError(f"device {name!r}: there are {torch.cuda.device_count()} GPUs, numbered from 0")
        torch.cuda.set_device(index)
        properties = torch.cuda.get_device_properties(index)
        self._torch = torch
        self.name = f"cuda:{index}"
        self.title = str(properties.name)
        self.cache_bytes = int(properties.L2_cache_size)
        self._sweep: torch.Tensor | None = None

    @property
    def method(self) -> dict[str, object]:
        """How this device is timed, with its overheads in seconds."""
        return {
            "timer": "device events",
            "timer_resolution_s": _EVENT_RESOLUTION_S,
            "timer_overhead_s": self.overhead_s(),
            "host_timer_overhead_s": clock_facts().overhead_s,
            "launch_overhead_s": self.launch_overhead_s,
        }

    def sampler(self, runs: Sequence[Run]) -> Callable[[], Timing]:
        """Return a callable that takes one sample: device time between events around all ``runs``.

        The runs are captured into a graph where that works, so that one launch starts them all; the device is held
        busy while they are submitted, so that no launch is part of the device time.
        """
        launch = self._captured(runs) or partial(_call_all, runs)
        hold_s = _LEAST_HOLD_S

        def sample() -> Timing:
            nonlocal hold_s
            timing = self._time(launch, hold_s)
            hold_s = min(max(_LEAST_HOLD_S, 2 * (timing.host_s or 0.0)), _LONGEST_HOLD_S)
            return timing

        return sample

    def _time(self, launch: Callable[[], object], hold_s: float = _LEAST_HOLD_S) -> Timing:
        start = self._torch.cuda.Event(enable_timing=True)
        end = self._torch.cuda.Event(enable_timing=True)
        self._hold(hold_s)
        start.record()
        host_start = now_ns()
        launch()
        host_s = (now_ns() - host_start) * 1e-9
        end.record()
        end.synchronize()
        return Timing(start.elapsed_time(end) * 1e-3, host_s)

    def _hold(self, seconds: float) -> None:
        """Keep the device busy for a moment, so that the work is queued behind it before it starts."""
        sleep = getattr(self._torch.cuda, "_sleep", None)
        if sleep is not None:
            sleep(int(seconds * _HOLD_CYCLES_PER_S))

    def _captured(self, runs: Sequence[Run]) -> Callable[[], object] | None:
        """Return the replay of a graph of ``runs``, or None where they cannot be captured."""
        cuda = self._torch.cuda
        try:
            stream = cuda.Stream()
            stream.wait_stream(cuda.current_stream())
            with cuda.stream(stream):
                for _ in range(_WARM_UPS_BEFORE_CAPTURE):
                    for run in runs:
                        run()
            cuda.current_stream().wait_stream(stream)
            graph = cuda.CUDAGraph()
            with cuda.graph(graph):
                for run in runs:
                    run()
            graph.replay()
            cuda.synchronize()
        except RuntimeError:
            # A kernel that reads back to the host, or allocates outside torch, cannot be captured.
            with contextlib.suppress(RuntimeError):
                cuda.synchronize()
            return None
        return graph.replay

    def flush(self) -> None:
        """Write a buffer larger than the last-level cache, then read it, so that no line is left to write back."""
        if self._sweep is None:
            words = max(_SWEEP_FACTOR * self.cache_bytes, 64 << 20) // 4
            self._sweep = self._torch.ones(words, dtype=self._torch.int32, device=self.name)
        self._sweep.add_(1)
        self._sweep.max()

    def synchronise(self) -> None:
        """Wait until all submitted work has ended."""
        self._torch.cuda.synchronize()

    def shortest_s(self) -> float:
        """Return the shortest sample whose timer error is negligible once the overhead is subtracted, in seconds."""
        return _EVENT_RESOLUTION_S / NEGLIGIBLE

    @cached_property
    def _empty_s(self) -> float:
        return median([self._time(_nothing).device_s for _ in range(_READINGS)])

    def overhead_s(self) -> float:
        """Return the time that events around nothing show, in seconds."""
        return self._empty_s

    @cached_property
    def launch_overhead_s(self) -> float:
        """Host time to submit one small kernel, in seconds."""
        small = self._torch.zeros(1, device=self.name)
        return median([self._time(lambda: small.add_(1)).host_s or 0.0 for _ in range(_READINGS)])

    def verify_flush(self) -> dict[str, float]:
        """Return times of reading a quarter of the cache: ``warm_s``, and ``cold_s`` after a flush."""
        words: Any = self._torch.ones(max(self.cache_bytes // 4, 1 << 20) // 4, device=self.name)
        read = self.sampler((words.sum,))
        read()
        warm = median([read().device_s for _ in range(_READINGS)])
        cold = []
        for _ in range(_READINGS):
            self.flush()
            cold.append(read().device_s)
        return {"warm_s": warm, "cold_s": median(cold)}


def _call_all(runs: Sequence[Run]) -> None:
    for run in runs:
        run()


def _nothing() -> None:
    pass
