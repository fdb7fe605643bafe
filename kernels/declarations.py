"""What a backend's file declares, read without executing it, so that names do not depend on what was imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Declaration:
    """An ``@implementation(...)`` of a backend's file: the implementation's name, and where it runs."""

    name: str
    backend: str
    devices: tuple[str, ...]


def declarations(path: Path) -> Iterator[Declaration]:
    """Yield what the decorators of a file declare, in its order.

    Raises
    ------
    ValueError
        If an argument of a decorator is not a literal.
    """
    for node in ast.parse(path.read_text(), str(path)).body:
        for call in getattr(node, "decorator_list", ()):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "implementation":
                given = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
                yield Declaration(given.get("name") or given["backend"], given["backend"], given["devices"])
