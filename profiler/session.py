"""One case being measured in this process: open it, sample it in rounds, close it."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..kernels import Implementation, Inputs, Operator, Prepared, get_implementation, get_operator
from .cases import Case
from .clock import NEGLIGIBLE, calls_per_sample, now_ns
from .correctness import (
    check_follows_inputs,
    check_inputs_untouched,
    check_output,
    check_output_rewritten,
    run_once,
)
from .devices import Device, Run, Timing, flush_evidence, get_device
from .failures import CaseFailureError, as_failure
from .inputs_shelf import InputsShelf
from .settings import Settings
from .threads import configure_threads, main_thread_pinned, pin_workers, thread_ids
from .warm_up import warm_up

# Together the copies of rotating inputs exceed the cache this often, so that none is left when its turn comes again.
_ROTATION_FACTOR = 4
_MOST_COPIES = 512
# Threads that a call starts share the main thread's core, which makes the call slower by far more than this.
_PINNED_TRIES, _PINNED_SLOWER = 3, 1.2


@dataclass(frozen=True)
class Opened:
    """What is known of a case once it is ready to be sampled."""

    call_s: float
    calls_per_sample: int
    max_error: float
    device_title: str
    backend: str
    baseline: bool
    method: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Round:
    """The samples of one turn, in seconds per call."""

    samples_s: list[float]
    host_s: list[float] = field(default_factory=list)
    elapsed_s: float = 0.0


class Session(Protocol):
    """One case being measured. Every method raises `CaseFailureError` where the case fails."""

    def open(self) -> Opened:
        """Prepare, check and warm up."""
        ...

    def sample(self, seconds: float, most: int) -> Round:
        """Take samples for some seconds: at least one, at most ``most``."""
        ...

    def burn(self, seconds: float) -> int:
        """Repeat the call for some seconds and return how often, for reading energy meanwhile."""
        ...

    def finish(self) -> float:
        """Check again and return the largest error in units of its tolerance."""
        ...

    def close(self) -> None:
        """Free what the session holds; safe to call at any time."""
        ...


class LocalSession:
    """A session in this process."""

    def __init__(self, case: Case, settings: Settings, shelf: InputsShelf) -> None:
        self.case = case
        self._settings = settings
        self._shelf = shelf
        self._samplers: Iterator[Callable[[], Timing]] = iter(())

    def open(self) -> Opened:
        """Prepare, check and warm up."""
        try:
            return self._open()
        except (Exception, SystemExit) as error:
            raise as_failure(error, "preparing and checking") from error

    def _open(self) -> Opened:
        case, settings = self.case, self._settings
        threads = configure_threads(settings.threads)
        self._operator: Operator = get_operator(case.operator)
        self._implementation: Implementation = get_implementation(case.operator, case.implementation)
        self._device: Device = get_device(case.device)
        self._inputs: Inputs
        self._inputs, self._print = self._shelf.get(self._operator, case.workload, settings.seed)
        threads_before = thread_ids()
        start = now_ns()
        self._prepared: Prepared = self._implementation.prepare(self._inputs, self._device.name)
        prepared_ns = now_ns()
        output = run_once(self._prepared, self._device)
        threads_started = thread_ids() - threads_before
        first_call_s = (now_ns() - prepared_ns) * 1e-9
        max_error = self._check(output)
        self._run: Run = self._prepared.run
        self._cold = case.cache_state == "cold"
        self._flush: Callable[[], None] = self._device.flush if self._cold else _nothing
        sampler = self._device.sampler((self._run,))

        def sample() -> float:
            self._flush()
            return sampler().device_s

        warm = warm_up(sample, settings.warm_up_s)
        pinned = pin_workers(threads_started) if settings.pin and case.device == "cpu" else 0
        self._pin_main = self._settings.pin and case.device == "cpu" and self._bears_pinning(sample, warm.call_s)
        calls = calls_per_sample(warm.call_s, self._device.shortest_s())
        method = {
            **self._device.method,
            "prepare_s": (prepared_ns - start) * 1e-9,
            "first_call_s": first_call_s,
            "warm_up_calls": warm.calls,
            "warm_up_s": warm.seconds,
            "warm_up_stable": warm.stable,
            "threads": threads,
            "pinned_threads": pinned,
            "main_thread_pinned": self._pin_main,
            **self._make_samplers(calls),
        }
        self._correct_overhead = self._device.overhead_s() > NEGLIGIBLE * warm.call_s * calls / 10
        method["overhead_subtracted"] = self._correct_overhead
        implementation = self._implementation
        return Opened(
            warm.call_s, calls, max_error, self._device.title, implementation.backend, implementation.baseline, method
        )

    @staticmethod
    def _bears_pinning(sample: Callable[[], float], free_s: float) -> bool:
        """Return whether calls are as fast with the main thread on one core: those that start threads are not."""
        with main_thread_pinned(True) as pinned:
            return pinned and min(sample() for _ in range(_PINNED_TRIES)) <= _PINNED_SLOWER * free_s

    def _check(self, output: dict[str, Any]) -> float:
        try:
            check_inputs_untouched(self._inputs, self._print)
            max_error = check_output(self._operator, output, self._inputs, "before timing")
            check_output_rewritten(self._operator, self._prepared, self._device, self._inputs)
            check_inputs_untouched(self._inputs, self._print)
        except CaseFailureError:
            self._forget_changed_inputs()
            raise
        others, _ = self._shelf.get(self._operator, self.case.workload, self._settings.seed + 1)
        check_follows_inputs(self._operator, self._implementation, self._device, self._inputs, others)
        return max_error

    def _forget_changed_inputs(self) -> None:
        try:
            check_inputs_untouched(self._inputs, self._print)
        except CaseFailureError:
            self._shelf.drop(self._settings.seed)

    def _make_samplers(self, calls: int) -> dict[str, Any]:
        """Bind what one sample calls, and return how the cache state is made."""
        self._calls = calls
        rotate = self._cold and (calls > 1 or self._settings.cold_by == "rotation")
        if not rotate:
            self._samplers = itertools.repeat(self._device.sampler((self._run,) * calls))
            return {"cold_by": "flush", "flush": flush_evidence(self._device)} if self._cold else {}
        wanted = _ROTATION_FACTOR * self._device.cache_bytes // max(self._inputs.nbytes, 1) + 2
        copies = min(wanted, _MOST_COPIES)
        runs = [self._run, *(self._copy_of_inputs() for _ in range(copies - 1))]
        # Turns start where the last one ended, so every copy rests while all the others work.
        turns = [
            self._device.sampler([runs[i % copies] for i in range(first, first + calls)])
            for first in range(0, copies, calls)
        ]
        self._flush = _nothing
        self._samplers = itertools.cycle(turns)
        return {"cold_by": "rotation", "rotating_copies": copies, "rotation_exceeds_cache": copies == wanted}

    def _copy_of_inputs(self) -> Run:
        copies = {name: array.copy() for name, array in self._inputs.arrays.items()}
        inputs = Inputs(self._inputs.workload, self._inputs.seed, copies)
        run = self._implementation.prepare(inputs, self._device.name).run
        run()
        return run

    def sample(self, seconds: float, most: int) -> Round:
        """Take samples for some seconds: at least one, at most ``most``."""
        try:
            with main_thread_pinned(self._pin_main):
                return self._sample(seconds, most)
        except (Exception, SystemExit) as error:
            raise as_failure(error, "sampling") from error

    def _sample(self, seconds: float, most: int) -> Round:
        overhead_s = self._device.overhead_s() if self._correct_overhead else 0.0
        samples: list[float] = []
        host: list[float] = []
        collecting = gc.isenabled()
        gc.disable()
        start = now_ns()
        try:
            if not self._cold:
                self._run()  # The implementation that had the turn before has taken the cache.
            self._device.synchronise()
            while len(samples) < most and ((now_ns() - start) * 1e-9 < seconds or not samples):
                self._flush()
                timing = next(self._samplers)()
                samples.append(max(timing.device_s - overhead_s, 1e-10) / self._calls)
                if timing.host_s is not None:
                    host.append(timing.host_s / self._calls)
        finally:
            if collecting:
                gc.enable()
        return Round(samples, host, (now_ns() - start) * 1e-9)

    def burn(self, seconds: float) -> int:
        """Repeat the call for some seconds and return how often, for reading energy meanwhile."""
        try:
            return _repeat(self._run, self._device, seconds)
        except (Exception, SystemExit) as error:
            raise as_failure(error, "reading energy") from error

    def finish(self) -> float:
        """Check again and return the largest error in units of its tolerance."""
        try:
            output = run_once(self._prepared, self._device)
            check_inputs_untouched(self._inputs, self._print)
            return check_output(self._operator, output, self._inputs, "after timing, though right before it")
        except (Exception, SystemExit) as error:
            self._forget_changed_inputs()
            raise as_failure(error, "checking after timing") from error

    def close(self) -> None:
        """Free the prepared buffers."""
        for name in ("_prepared", "_run", "_samplers"):
            self.__dict__.pop(name, None)


def _repeat(run: Run, device: Device, seconds: float) -> int:
    start = now_ns()
    calls = 0
    while (now_ns() - start) * 1e-9 < seconds:
        run()
        device.synchronise()
        calls += 1
    return calls


def _nothing() -> None:
    pass


def sessions_in_process(cases: Sequence[Case], settings: Settings) -> list[Session]:
    """Return one session per case in this process, sharing their inputs."""
    shelf = InputsShelf()
    return [LocalSession(case, settings, shelf) for case in cases]
