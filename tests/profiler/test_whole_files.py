"""Files appear whole and together, or not at all."""

from pathlib import Path

import pytest
from roofcast.profiler.whole_files import whole_files


def test_files_take_their_places_together(tmp_path: Path) -> None:
    a, b = tmp_path / "a.txt", tmp_path / "b.csv"
    a.write_text("old")
    with whole_files(a, b) as (new_a, new_b):
        new_a.write_text("new")
        assert a.read_text() == "old"
        assert new_b.suffix == ".csv"
        new_b.write_text("also new")
    assert (a.read_text(), b.read_text()) == ("new", "also new")
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "b.csv"}


def test_a_fault_leaves_what_was_there(tmp_path: Path) -> None:
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    a.write_text("old")

    def write_half() -> None:
        with whole_files(a, b) as (new_a, _):
            new_a.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert a.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt"}


def test_a_folder_in_the_way_stops_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(IsADirectoryError), whole_files(tmp_path / "a", tmp_path / "b"):
        raise AssertionError("the block must not run")
    assert {path.name for path in tmp_path.iterdir()} == {"b"}
