"""One group of cases, measured in this process."""

import pytest
from roofcast.profiler.measuring import measure


def _only(rows):
    (row,) = rows
    return row


@pytest.mark.parametrize("cache_state", ["cold", "warm"])
def test_good_case(toy, fast, cache_state):
    row = _only(measure(toy("double", cache_state=cache_state), fast))
    assert (row.status, row.message) == ("ok", "")
    assert 0 < row.ci95_low_s <= row.median_s <= row.ci95_high_s
    fewest = 3 if cache_state == "cold" else 5  # Flushing a cache of hundreds of MiB takes most of the budget.
    assert len(row.samples_s) == sum(row.method["round_sizes"]) >= fewest
    assert row.stop_reason
    assert row.max_error == 0
    assert row.cost["read_bytes"] == {"dram": 80_000.0}


@pytest.mark.parametrize(
    ("name", "status", "says"),
    [
        ("wrong", "incorrect", "before timing"),
        ("nan", "incorrect", "not finite"),
        ("raises", "crashed", "RuntimeError while preparing and checking: the kernel does not like this"),
        ("memory", "out_of_memory", "no room for 1 TB"),
        ("quits", "crashed", "SystemExit"),
        ("once", "incorrect", "keeps its first answer"),
        ("late", "incorrect", "after timing"),
        ("spoils", "incorrect", "changed its inputs: x"),
        ("cached", "incorrect", "cached"),
        ("unsupported", "unsupported", "only even n"),
        ("missing", "unsupported", "'a_package_that_is_not_there'"),
        ("nosuch", "unsupported", "unknown implementation of toy.scale 'nosuch'"),
    ],
)
def test_failure_is_a_row(toy, fast, name, status, says):
    row = _only(measure(toy(name), fast))
    assert row.status == status
    assert says in row.message
    assert row.samples_s == []


def test_spoiled_inputs_do_not_reach_the_next(toy, fast):
    rows = {row.implementation: row.status for row in measure(toy("spoils", "double", "twice"), fast)}
    assert rows == {"spoils": "incorrect", "double": "ok", "twice": "ok"}


def test_judge_sees_good_rows_only(toy, fast):
    def judge(row):
        return row.model_copy(update={"fraction_of_roof": 0.5})

    rows = {row.implementation: row.fraction_of_roof for row in measure(toy("wrong", "double"), fast, judge=judge)}
    assert rows == {"wrong": None, "double": 0.5}


def test_interrupt_passes_through(toy, fast):
    with pytest.raises(KeyboardInterrupt):
        list(measure(toy("interrupt"), fast))
