"""Find the measured tables: the installed package ``aiconfigurator-core`` or a folder that holds the same."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from pathlib import Path

PACKAGE = "aiconfigurator-core"
# A folder with the same layout, <gpu>/<family>/<framework>/<version>/<table>_perf.parquet, instead of the package.
ENVIRONMENT = "ROOFCAST_SILICON"


class SiliconMissingError(RuntimeError):
    """The tables are not here; the message says how to get them."""


def tables_folder() -> Path:
    """Return the folder that holds one folder per GPU.

    Raises
    ------
    SiliconMissingError
        If neither the package nor a folder named by ``ROOFCAST_SILICON`` is there.
    """
    if named := os.environ.get(ENVIRONMENT):
        folder = Path(named)
        if not folder.is_dir():
            raise SiliconMissingError(f"{ENVIRONMENT} = {named!r}: no such folder; unset it or name one with tables")
        return folder
    spec = importlib.util.find_spec("aiconfigurator_core")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / "systems" / "data"
        if folder.is_dir():
            return folder
    raise SiliconMissingError(
        f"the measured tables of {PACKAGE} are not installed; run: pip install 'roofcast[silicon]' "
        f"(about 80 MB), or set {ENVIRONMENT} to a folder that holds them"
    )


def tables_version() -> str:
    """Return what the tables are, as a citation."""
    if os.environ.get(ENVIRONMENT):
        return f"tables in {os.environ[ENVIRONMENT]}"
    return f"{PACKAGE} {importlib.metadata.version(PACKAGE)} (NVIDIA, Apache-2.0)"
