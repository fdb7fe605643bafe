"""Occupancy from resources, against values of NVIDIA's occupancy calculator worked out by hand."""

import pytest
from roofcast.profiler.compilation.resources import InstructionMix, Resources, SmLimits, occupancy

H100 = SmLimits(warps=64, blocks=32, registers=65536, shared_bytes=228 * 1024)
RUBIN = SmLimits(warps=32, blocks=16, registers=65536, shared_bytes=228 * 1024, tensor_memory_columns=576)


def _resources(registers: int = 32, shared: int = 1024, columns: int = 0) -> Resources:
    return Resources(registers, 0, shared, columns, "", InstructionMix({}))


@pytest.mark.parametrize(
    ("resources", "num_warps", "limits", "blocks", "limited_by"),
    [
        (_resources(), 4, H100, 16, "warps"),
        (_resources(), 1, H100, 32, "blocks"),
        (_resources(registers=128), 4, H100, 4, "registers"),
        (_resources(registers=255), 8, H100, 1, "registers"),
        (_resources(registers=96), 4, H100, 5, "registers"),
        (_resources(shared=99 * 1024), 4, H100, 2, "shared memory"),
        (_resources(), 4, RUBIN, 8, "warps"),
        (_resources(columns=256), 4, RUBIN, 2, "tensor memory"),
    ],
)
def test_occupancy(resources: Resources, num_warps: int, limits: SmLimits, blocks: int, limited_by: str) -> None:
    found = occupancy(resources, num_warps, limits)
    assert (found.blocks, found.limited_by) == (blocks, limited_by)
    assert found.fraction == blocks * num_warps / limits.warps


def test_a_block_that_does_not_fit_has_no_occupancy() -> None:
    found = occupancy(_resources(shared=300 * 1024), 4, H100)
    assert (found.blocks, found.fraction, found.limited_by) == (0, 0.0, "shared memory")
