"""The house: which room may know which, and what importing a room may load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_KNOW = {
    "hwprofiles": set(),
    "kernels": set(),
    "profiler": {"hwprofiles", "kernels"},
    "roofline": {"hwprofiles", "kernels", "profiler"},
    "cli": {"hwprofiles", "kernels", "profiler", "roofline"},
}
HEAVY = {"torch", "triton", "numba", "matplotlib", "plotly", "pynvml"}


def _rooms_imported(path: Path) -> set[str]:
    parts = path.relative_to(ROOT).with_suffix("").parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            package = parts[: len(parts) - node.level]
            target = (*package, *(node.module or "").split("."))
            if len(package) == 0:
                found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
            elif target[0] != parts[0]:
                found.add(target[0])
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("roofcast."):
            found.add((node.module or "").split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("roofcast.")}
    return found & set(MAY_KNOW)


@pytest.mark.parametrize("room", MAY_KNOW)
def test_floor(room: str) -> None:
    offenders = {
        str(path.relative_to(ROOT)): sorted(extra)
        for path in (ROOT / room).rglob("*.py")
        if (extra := _rooms_imported(path) - MAY_KNOW[room] - {room})
    }
    assert offenders == {}


@pytest.mark.parametrize("room", MAY_KNOW)
def test_import_is_light(room: str) -> None:
    code = (
        f"import roofcast.{room}, sys, threading;"
        "print(threading.active_count(), *[m for m in sys.modules if '.' not in m])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out[0] == "1"
    assert HEAVY & set(out[1:]) == set()
