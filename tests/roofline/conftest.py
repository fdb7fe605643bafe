"""A sample of measured kernel tables, in the layout of the package that carries them all."""

from __future__ import annotations

from pathlib import Path

import pytest

SAMPLE = Path(__file__).parent / "silicon_fixture"


@pytest.fixture(scope="session")
def silicon_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that the tests share, so that each table is mapped once."""
    return tmp_path_factory.mktemp("silicon")


@pytest.fixture
def silicon(silicon_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the sample stand for the package."""
    monkeypatch.setenv("ROOFCAST_SILICON", str(SAMPLE))
    monkeypatch.setenv("ROOFCAST_CACHE", str(silicon_cache))
    return SAMPLE
