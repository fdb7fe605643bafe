"""Measure the implementations of one workload interleaved, A B A B, so that drift hits all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..kernels import get_operator
from .cases import Case
from .devices import get_device
from .failures import CaseFailureError, as_failure
from .machine_state import StateWatch
from .schema import MachineState, Measurement
from .session import Opened, Round, Session, sessions_in_process
from .settings import Settings
from .software import code_commit, software_versions
from .statistics import median, median_interval
from .stop_criteria import StopCriterion, first_reason
from .times import host_name, utc_now

Judge = Callable[[Measurement], Measurement]
SessionMaker = Callable[[Sequence[Case], Settings], Sequence[Session]]
# Enough turns for drift to show in every implementation, whatever the criteria say of the first ones.
_FEWEST_ROUNDS = 5
_ROUND_SAMPLES = 25


@dataclass
class _Track:
    """One case on its way to a row."""

    case: Case
    session: Session
    watch: StateWatch
    started_at: str = field(default_factory=utc_now)
    cost: dict[str, Any] = field(default_factory=dict)
    opened: Opened | None = None
    samples_s: list[float] = field(default_factory=list)
    host_s: list[float] = field(default_factory=list)
    round_sizes: list[int] = field(default_factory=list)
    throttled_rounds: list[int] = field(default_factory=list)
    retried_rounds: int = 0
    elapsed_s: float = 0.0

    def add(self, turn: Round, throttled: bool) -> None:
        if throttled:
            self.throttled_rounds.append(len(self.round_sizes))
        self.samples_s += turn.samples_s
        self.host_s += turn.host_s
        self.round_sizes.append(len(turn.samples_s))
        self.elapsed_s += turn.elapsed_s


def measure(
    cases: Iterable[Case],
    settings: Settings | None = None,
    *,
    judge: Judge | None = None,
    open_sessions: SessionMaker = sessions_in_process,
    make_watch: Callable[[str], StateWatch] = StateWatch,
    on_stage: Callable[[Case, str], None] | None = None,
) -> Iterator[Measurement]:
    """Measure cases that differ in nothing but their implementation and yield a row for each, as it ends.

    Parameters
    ----------
    cases
        Cases of one group (see `cases.group_cases`).
    judge
        Called with every correct row; returns it with its roofs, or refused as ``above_roof``.
    open_sessions
        Makes the sessions: in this process, or in worker processes.
    make_watch
        Makes what watches the state of a device, given its name.
    on_stage
        Called with the case and what is being done with it.

    Yields
    ------
    Measurement
        One row per case. Failures are rows too; nothing but KeyboardInterrupt and the judge's own errors escape.
    """
    cases = list(cases)
    settings = settings or Settings()
    report = on_stage or _ignore
    sessions = open_sessions(cases, settings)
    try:
        live: list[_Track] = []
        for case, session in zip(cases, sessions, strict=True):
            track = _Track(case, session, make_watch(case.device))
            report(case, "preparing and checking")
            try:
                track.cost = _cost(case)
                track.opened = session.open()
            except CaseFailureError as failure:
                session.close()
                yield _failed(track, failure, settings)
            else:
                track.watch.start()
                live.append(track)
        yield from _sample_in_turns(live, settings, judge, report)
    finally:
        for session in sessions:
            session.close()


def _sample_in_turns(
    live: list[_Track], settings: Settings, judge: Judge | None, report: Callable[[Case, str], None]
) -> Iterator[Measurement]:
    criteria = settings.stop_criteria()
    for track in live:
        report(track.case, "sampling")
    while live:
        for track in list(live):
            try:
                _take_turn(track, settings)
                reason = _reason(track, settings, criteria)
                if not reason:
                    continue
                report(track.case, "checking")
                row = _finished(track, reason, settings)
            except CaseFailureError as failure:
                row = _failed(track, failure, settings)
            track.session.close()
            live.remove(track)
            yield judge(row) if judge is not None and row.status == "ok" else row


def _take_turn(track: _Track, settings: Settings) -> None:
    """Sample one round; take it again if the device was throttled meanwhile, a bounded number of times."""
    seconds = min(settings.round_s, settings.budget_s / _FEWEST_ROUNDS)
    turn = track.session.sample(seconds, _ROUND_SAMPLES)
    throttled = track.watch.throttled_since_last_look()
    while throttled and track.retried_rounds < settings.retries:
        track.retried_rounds += 1
        track.elapsed_s += turn.elapsed_s
        turn = track.session.sample(seconds, _ROUND_SAMPLES)
        throttled = track.watch.throttled_since_last_look()
    track.add(turn, throttled)


def _reason(track: _Track, settings: Settings, criteria: Sequence[StopCriterion]) -> str:
    if len(track.round_sizes) < _FEWEST_ROUNDS and track.elapsed_s < settings.budget_s:
        return ""
    return first_reason(criteria, track.samples_s, track.elapsed_s)


def _finished(track: _Track, reason: str, settings: Settings) -> Measurement:
    opened = track.opened
    assert opened is not None
    state = track.watch.stop(track.session.burn, settings.energy_s, throttled=bool(track.throttled_rounds))
    max_error = max(opened.max_error, track.session.finish())
    interval = median_interval(track.samples_s)
    row = _row(track, settings)
    return row.model_copy(
        update={
            "samples_s": track.samples_s,
            "calls_per_sample": opened.calls_per_sample,
            "median_s": interval.median,
            "ci95_low_s": interval.low,
            "ci95_high_s": interval.high,
            "stop_reason": reason,
            "host_time_s": median(track.host_s) if track.host_s else None,
            "max_error": max_error,
            "state": state,
        }
    )


def _failed(track: _Track, failure: CaseFailureError, settings: Settings) -> Measurement:
    row = _row(track, settings)
    return row.model_copy(update={"status": failure.status, "message": failure.message})


def _row(track: _Track, settings: Settings) -> Measurement:
    """Return what every row of a case holds, whether it succeeds or fails."""
    case, opened = track.case, track.opened
    method = dict(opened.method) if opened else {}
    if opened:
        method |= {
            "round_sizes": track.round_sizes,
            "throttled_rounds": track.throttled_rounds,
            "retried_rounds": track.retried_rounds,
            "sampling_s": track.elapsed_s,
            "criteria": [repr(criterion) for criterion in settings.stop_criteria()],
        }
    return Measurement(
        key=case.key,
        operator=case.operator,
        workload=case.workload.as_dict(),
        implementation=case.implementation,
        backend=opened.backend if opened else _backend(case),
        baseline=opened.baseline if opened else False,
        device=case.device,
        device_name=opened.device_title if opened else _title(case.device),
        cache_state=case.cache_state,
        status="ok",
        cost=track.cost,
        seed=settings.seed,
        host=host_name(),
        software=software_versions(),
        commit=code_commit(),
        method=method,
        started_at=track.started_at,
        state=MachineState(),
    )


def _cost(case: Case) -> dict[str, Any]:
    try:
        return get_operator(case.operator).cost(case.workload).as_dict()
    except Exception as error:
        raise as_failure(error, "counting the cost") from error


def _backend(case: Case) -> str:
    return case.implementation if case.implementation in ("numba", "triton", "torch") else "user"


def _title(device: str) -> str:
    """Return a device's name for a case that failed; a GPU's is left out, for asking would start its driver here."""
    return get_device(device).title if device == "cpu" else ""


def _ignore(case: Case, stage: str) -> None:
    pass
