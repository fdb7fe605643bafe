"""The loop cost: what one step of RL post-training takes and costs on a system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cost import LoopCost, loop_cost
    from .scenario import Scenario
    from .scenario_file import ScenarioError, load_scenario, scenario_names
    from .table import read_loop, write_loop

_HOME = {
    "LoopCost": "cost",
    "loop_cost": "cost",
    "Scenario": "scenario",
    "ScenarioError": "scenario_file",
    "load_scenario": "scenario_file",
    "scenario_names": "scenario_file",
    "read_loop": "table",
    "write_loop": "table",
}
__all__ = [
    "LoopCost",
    "Scenario",
    "ScenarioError",
    "load_scenario",
    "loop_cost",
    "read_loop",
    "scenario_names",
    "write_loop",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that importing the room stays light."""
    if name in _HOME:
        from importlib import import_module

        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
