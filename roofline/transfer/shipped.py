"""The calibrations that come with roofcast, so that projecting needs no tables of other GPUs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from ..tables import load_table
from .calibration import Calibration, calibrate
from .device import Speeds

# Left out of the teaching in turn; "" leaves none out, for targets that came after every GPU of the tables.
FAMILIES = ("", "blackwell", "rtx_blackwell", "hopper", "ada", "ampere")


def calibration_for(target: Speeds) -> Calibration:
    """Return the calibration for a target, one that its family took no part in.

    Those that come with roofcast are used; one that is not among them is taught from the measured tables.
    """
    return _for_family(target.family if target.family in FAMILIES else "")


@lru_cache(maxsize=16)
def _for_family(family: str) -> Calibration:
    known: dict[str, Any] = load_table("transfer")["calibrations"]
    if family not in known:
        return calibrate(family or None, held_out=not family)
    return Calibration.from_dict(known[family] | {"family": family})


def write_calibrations(path: Path, source: str) -> None:
    """Teach every calibration from the measured tables and write them as YAML.

    Raises
    ------
    SiliconMissingError
        If the tables are not installed.
    OSError
        If the file cannot be written.
    """
    import yaml

    made = {}
    for family in FAMILIES:
        values = calibrate(family or None, held_out=not family).as_dict()
        made[family] = _rounded({name: value for name, value in values.items() if name != "family"})
    head = (
        "# What a transfer between GPUs uses, taught by pairs of GPUs without the family named (written by\n"
        "# roofcast backtest --calibrate). Bands are ends of log(measured / predicted), 10th and 90th percentile, by\n"
        f"# basis, class of operator and size; source: {source}.\n\n"
    )
    path.write_text(
        head + yaml.safe_dump({"calibrations": made}, default_flow_style=None, sort_keys=False, width=118),
        encoding="utf-8",
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(entry) for entry in value]
    return round(value, 4) if isinstance(value, float) else value
