"""A point above a disturbed ceiling is judged again by a better one; a point above a true one stays refused."""

from pathlib import Path

import pytest
from roofcast.kernels import Cost
from roofcast.profiler import RunFolder
from roofcast.profiler.schema import CeilingRow
from roofcast.roofline import second_look as module
from roofcast.roofline.judge import judge
from roofcast.roofline.run_ceilings import ceilings_of_run

COST = Cost(flops={"vector.fp32": 1e9}, read_bytes={"dram": 1.0}, write_bytes={"dram": 0.0})


@pytest.fixture
def look(tmp_path: Path, ceiling, measurement, monkeypatch: pytest.MonkeyPatch):
    """Return a function that measures a row of 10 GFLOP/s under one ceiling, and then under better ones."""

    def run(first: float, *later: float):
        answers = iter(later)
        asked: list[list[str]] = []

        def measure_again(device: str, *, names: list[str]):
            asked.append(names)
            yield ceiling("vector.fp32", next(answers), "FLOP/s")

        monkeypatch.setattr(module, "measure_ceilings", measure_again)
        with RunFolder.create(tmp_path / "run") as folder:
            folder.append(ceiling("vector.fp32", first, "FLOP/s"))
            row = judge(ceilings_of_run(module.load_run(folder.path)))(measurement(time_s=0.1, cost=COST))
            folder.append(row)
            (judged,) = module.second_look(folder, [row])
            kept = [r for r in folder.rows() if isinstance(r, CeilingRow)]
            assert judged in folder.rows()
        return judged, kept[0].value, asked

    return run


def test_a_point_below_its_roof_asks_for_nothing(look) -> None:
    judged, _, asked = look(20e9)
    assert (judged.status, asked) == ("ok", [])


def test_a_disturbed_ceiling_is_measured_again_and_the_point_stands(look) -> None:
    judged, value, asked = look(2e9, 20e9)
    assert judged.status == "ok"
    assert judged.fraction_of_roof == pytest.approx(0.5)
    assert (value, asked) == (20e9, [["vector.fp32"]])


def test_a_slower_second_measurement_is_not_kept(look) -> None:
    judged, value, asked = look(2e9, 1e9)
    assert judged.status == "above_roof"
    assert (value, len(asked)) == (2e9, 1)


def test_a_point_above_a_true_roof_stays_refused(look) -> None:
    judged, value, asked = look(2e9, 2.1e9, 2.2e9)
    assert judged.status == "above_roof"
    assert (value, len(asked)) == (2.2e9, 2)
