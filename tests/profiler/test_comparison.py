"""Comparison of runs: real differences are found, the same code is not called faster."""

import numpy as np
import pytest
from roofcast.profiler import CompareError, Measurement, RunFolder, compare, load_run, measure
from roofcast.profiler.noise import FLOOR_WITHOUT_AA, LEAST_FLOOR, drift, noise_floor, round_medians
from roofcast.profiler.run import run_against_itself


def _row(key="k", centre=1.0, noise=0.01, seed=0, rounds=10, status="ok", **changes):
    rng = np.random.default_rng(seed)
    samples = (centre * (1 + noise * rng.standard_normal(rounds * 20))).tolist() if status == "ok" else []
    values = {
        "key": key, "operator": "toy.scale", "workload": {}, "implementation": "double", "backend": "user",
        "device": "cpu", "device_name": "cpu", "cache_state": "warm", "status": status, "samples_s": samples,
        "median_s": float(np.median(samples)) if samples else None, "seed": 0, "host": "h", "started_at": "now",
        "method": {"round_sizes": [20] * rounds},
    }  # fmt: skip
    return Measurement.model_validate({**values, **changes})


def _only(comparison):
    (case,) = comparison.cases
    return case


def test_a_real_difference_is_found_with_its_interval():
    case = _only(compare([_row(seed=1)], [_row(seed=2, centre=1.10)]))
    assert case.verdict == "slower"
    assert case.ratio_low < 1.10 < case.ratio_high
    assert case.effect == 1.0
    assert case.p_value < 0.001
    back = _only(compare([_row(seed=2, centre=1.10)], [_row(seed=1)]))
    assert back.verdict == "faster"
    assert back.effect == -1.0


def test_a_difference_below_the_floor_is_none():
    quiet = {"noise": 0.0001}
    case = _only(compare([_row(seed=1, **quiet)], [_row(seed=2, centre=1.04, **quiet)]))
    assert case.p_value < 0.001
    assert case.verdict == "same"
    assert case.noise_floor == FLOOR_WITHOUT_AA


def test_an_aa_run_lowers_the_floor_of_a_quiet_machine():
    quiet = {"noise": 0.0001}
    aa = [[_row(f"{i}", seed=2 * i + side, **quiet) for i in range(8)] for side in (0, 1)]
    case = _only(compare([_row(seed=1, **quiet)], [_row(seed=2, centre=1.04, **quiet)], aa=(aa[0], aa[1])))
    assert case.noise_floor == LEAST_FLOOR
    assert case.verdict == "slower"


def test_an_aa_run_raises_the_floor():
    aa = ([_row(seed=3)], [_row(seed=4, centre=1.1)])
    comparison = compare([_row(seed=1)], [_row(seed=2, centre=1.10)], aa=aa)
    assert comparison.noise_basis == "A/A run of 1 cases"
    assert _only(comparison).verdict == "same"


def test_missing_and_failed_rows_fail_the_gate():
    a = [_row("both"), _row("gone"), _row("broken"), _row("mended", status="crashed")]
    b = [_row("both", seed=5), _row("broken", status="crashed", message="SIGSEGV"), _row("mended"), _row("more")]
    comparison = compare(a, b)
    verdicts = {case.key: case.verdict for case in comparison.cases}
    assert verdicts == {"both": "same", "gone": "missing", "broken": "failed", "mended": "new", "more": "new"}
    assert [case.key for case in comparison.offenders(0.05)] == ["gone", "broken"]
    assert "SIGSEGV" in comparison.offenders(0.05)[1].message


def test_gate_fails_above_its_limit_only():
    comparison = compare([_row(seed=1)], [_row(seed=2, centre=1.10)])
    assert len(comparison.offenders(0.05)) == 1
    assert comparison.offenders(0.20) == []


def test_a_run_compared_with_itself_is_the_same():
    rows = [_row("a", seed=1, noise=0.3), _row("b", seed=2)]
    comparison = compare(rows, rows)
    assert {case.verdict for case in comparison.cases} == {"same"}
    assert {case.ratio for case in comparison.cases} == {1.0}
    assert comparison.offenders(0.0) == []


def test_drift_within_a_run_raises_the_floor():
    row = _row(rounds=4, samples_s=[1.0] * 40 + [1.3] * 40)
    assert round_medians(row) == [1.0, 1.0, 1.3, 1.3]
    assert noise_floor([row], []).of("k") >= 0.3
    assert noise_floor([row], [], ([row], [row])).of("k") >= 0.3


def test_nothing_in_common_is_an_error_and_other_machines_a_remark():
    with pytest.raises(CompareError, match="no case in common"):
        compare([_row("a")], [_row("b")])
    assert compare([_row()], [_row(host="other")]).remarks == ["the hosts differ: h in A, other in B"]


def test_false_alarms_among_simulated_machines_are_rare():
    """Rounds share a disturbance, as on a busy machine; the same code must not be called faster or slower."""
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        rows = []
        for _ in range(2):
            rounds = 1 + 0.05 * np.abs(rng.standard_normal(10))
            samples = (np.repeat(rounds, 20) * (1 + 0.01 * rng.standard_normal(200))).tolist()
            rows.append(_row(samples_s=samples, rounds=10))
        alarms += _only(compare(rows[:1], rows[1:])).verdict != "same"
    assert alarms <= 5


def _drifting(rng, size):
    """Return round medians of a virtual machine under load: each remembers most of the round before it."""
    state, rounds = rng.normal(0, 0.1), []
    for _ in range(size):
        state = 0.9 * state + rng.normal(0, 0.1 * (1 - 0.9**2) ** 0.5)
        rounds.append(float(np.exp(state)))
    return rounds


def _drifting_row(rng, size=12):
    return _row(samples_s=np.repeat(_drifting(rng, size), 20).tolist(), rounds=size)


def test_drift_gives_no_alarm_in_19_of_20():
    """Interleaved turns share the drift; a tenth of the time and a memory of ten rounds, as seen under load."""
    alarms = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        found = 0
        for _ in range(20):
            base = _drifting(rng, 12)
            sides = [np.asarray(base) * np.exp(rng.normal(0, 0.02, 12)) for _ in "ab"]
            rows = [_row(samples_s=np.repeat(side, 20).tolist(), rounds=12) for side in sides]
            found += _only(compare(rows[:1], rows[1:])).verdict != "same"
        alarms.append(found)
    assert max(alarms) <= 1


def test_runs_one_after_the_other_under_drift_are_rarely_told_apart():
    """Without interleaving the second run meets another stretch of the drift; its own rounds must give it away."""
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(1000 + seed)
        alarms += _only(compare([_drifting_row(rng)], [_drifting_row(rng)])).verdict != "same"
    assert alarms <= 20  # 56 with an error from means of blocks of rounds instead.


def test_drift_is_wider_than_the_standard_error_of_rounds_that_depend_on_each_other():
    independent = [drift(np.exp(np.random.default_rng(s).normal(0, 0.1, 64)).tolist()) for s in range(40)]
    dependent = [drift(_drifting(np.random.default_rng(s), 64)) for s in range(40)]
    assert np.median(dependent) > 1.5 * np.median(independent)
    assert drift([1.0, 2.0, 3.0]) == 0.0
    assert drift([1.0] * 8) == 0.0


def test_the_same_code_gives_no_alarm_in_19_of_20_runs(toy, fast):
    # Other work on the machine may spoil a try, not two: the floor and what it judges must see the same disturbance.
    assert any(_alarms_in_20(toy, fast) <= 1 for _ in range(2))


def _alarms_in_20(toy, fast):
    """Return how often the same code, really measured, differs from itself beyond an A/A run's noise floor."""
    pairs = [list(measure(toy("double", n=n) * 2, fast)) for n in (30_000, 50_000, 70_000, 90_000)]
    aa = [a for a, _ in pairs], [b for _, b in pairs]
    pairs = [list(measure(toy("double", n=50_000) * 2, fast)) for _ in range(20)]
    return sum(_only(compare([a], [b], aa=aa)).verdict != "same" for a, b in pairs)


def test_twice_the_work_is_found_slower(toy, fast):
    a, b = measure(toy("double", "twice", n=200_000), fast)
    assert {a.implementation, b.implementation} == {"double", "twice"}
    a, b = (a, b) if a.implementation == "double" else (b, a)
    case = _only(compare([a], [b.model_copy(update={"key": a.key})]))
    assert case.verdict == "slower"
    assert case.effect > 0.9


def test_aa_run_writes_both_folders(toy, fast, tmp_path):
    with RunFolder.create(tmp_path / "a") as a, RunFolder.create(tmp_path / "b") as b:
        run_against_itself(toy("double", "slow"), (a, b), settings=fast)
    runs = [load_run(tmp_path / name).measurement_rows for name in "ab"]
    assert [row.key for row in runs[0]] == [row.key for row in runs[1]]
    assert compare(*runs, aa=(runs[0], runs[1])).offenders(0.05) == []
