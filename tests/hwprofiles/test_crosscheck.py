"""The cross-checks find what does not come out, and only that."""

from pathlib import Path

import pytest
from roofcast.hwprofiles import load, load_file
from roofcast.hwprofiles.crosscheck import audit, compare_with_itself

TEXT = """\
name: mygpu
title: My GPU
kind: gpu
vendor: me
architecture: own
status: shipping
defaults: {source: bench, confidence: medium}
compute:
  sms: 100
  clock: {boost: 2 GHz}
  matrix: {bf16: 1.6384 PFLOP/s}
  flop_per_clock: {matrix: {bf16: 8192 FLOP}}
memory:
  dram: {bandwidth: 4 TB/s, bus: 8192 bit, data_rate: 4 Gb/s}
anchors: {dram.read: 3.8 TB/s}
sources:
  bench: {title: My own measurement, date: 2026}
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "mygpu.yaml"
    path.write_text(text)
    return path


def test_all_agree(tmp_path: Path) -> None:
    comparisons = {c.name: c for c in compare_with_itself(load_file(_file(tmp_path, TEXT)))}
    assert set(comparisons) == {"matrix.bf16", "dram.bandwidth"}
    assert all(c.agrees for c in comparisons.values())
    assert comparisons["dram.bandwidth"].computed == pytest.approx(8192 / 8 * 4e9)


@pytest.mark.parametrize(
    ("old", "new", "name", "difference"),
    [
        ("1.6384 PFLOP/s", "2.5 PFLOP/s", "matrix.bf16", 1.6384 / 2.5 - 1),
        ("4 TB/s, bus", "4.8 TB/s, bus", "dram.bandwidth", 4.096 / 4.8 - 1),
        ("dram.read: 3.8 TB/s", "dram.read: 4.4 TB/s", "anchor.dram.read", 0.1),
    ],
)
def test_a_disagreement_is_found_and_has_to_be_explained(
    tmp_path: Path, old: str, new: str, name: str, difference: float
) -> None:
    found = audit([_file(tmp_path, TEXT.replace(old, new))])
    assert [c.name for c in found.unexplained] == [name]
    assert found.unexplained[0].difference == pytest.approx(difference)
    explained = TEXT.replace(old, new) + f"disagreements:\n  {name}: It is known why.\n"
    again = audit([_file(tmp_path, explained)])
    assert (len(again.disagreements), again.unexplained, again.problems) == (1, [], [])


def test_an_explanation_of_nothing_is_a_problem(tmp_path: Path) -> None:
    found = audit([_file(tmp_path, TEXT + "disagreements:\n  matrix.bf16: It was so once.\n")])
    assert "explains a disagreement that is not there" in str(found.problems[0])


def test_unreadable_files_are_counted_with_their_problems(tmp_path: Path) -> None:
    found = audit([_file(tmp_path, TEXT.replace("4 TB/s", "4 TB"))])
    assert found.files == 1
    assert found.figures == 0
    assert len(found.problems) == 1
    assert found.as_dict()["problems"][0].startswith(str(tmp_path))


def test_a_rack_is_n_times_its_gpu() -> None:
    found = {c.name: c for c in compare_with_itself(load("vera-rubin-nvl72"))}
    assert found["dram.bandwidth"].computed == pytest.approx(72 * 19.2e12)
    assert found["matrix.nvfp4"].computed == pytest.approx(72 * 35e15)
    assert found["cores"].computed == 36 * 88
    assert found["c2c"].agrees
