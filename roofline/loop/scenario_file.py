"""Read scenarios from YAML: a wrong field is reported once, with file, line, value and what to do."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .scenario import Scenario

Place = tuple[str | int, ...]
_SHIPPED = Path(__file__).parent / "scenarios"


class ScenarioError(ValueError):
    """A scenario that cannot be used; the message names file, line, field, value and remedy."""


def scenario_names() -> list[str]:
    """Return the names of the shipped scenarios."""
    return sorted(path.stem for path in _SHIPPED.glob("*.yaml"))


def find_scenario(name: str | Path) -> Path:
    """Return the path of a scenario file, or of a shipped scenario by its bare name.

    Raises
    ------
    ScenarioError
        If there is none; the message names near matches.
    """
    path = Path(name)
    if path.is_file():
        return path
    shipped = _SHIPPED / f"{path.stem if path.suffix in ('.yaml', '.yml') else path.name}.yaml"
    if shipped.is_file() and (path.name == str(name) or path.parent.name == "scenarios"):
        return shipped
    near = difflib.get_close_matches(path.stem, scenario_names(), n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"shipped: {', '.join(scenario_names())}"
    raise ScenarioError(f"{name}: no such file and no shipped scenario of that name; {hint}")


def load_scenario(name: str | Path, overrides: dict[str, Any] | None = None) -> Scenario:
    """Load a scenario from a file or by a shipped name.

    Parameters
    ----------
    overrides
        Values by dotted field (``"cluster.gpus": 64``) that replace the file's.

    Raises
    ------
    ScenarioError
        If there is no such scenario, or something in it is wrong.
    """
    import yaml

    path = find_scenario(name)
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: is not UTF-8; save the file as UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        raise ScenarioError(
            f"{path}{where}: is not YAML ({getattr(error, 'problem', error)}); check indentation and colons"
        ) from None
    if not isinstance(data, dict):
        raise ScenarioError(f"{path}: is not a scenario; it starts with name:, model: and algorithm:")
    model = data.get("model")
    if isinstance(model, str) and (path.parent / model).exists():
        data["model"] = str(path.parent / model)  # a configuration beside the scenario
    lines: dict[Place, int] = {}
    try:
        _mark(node, (), lines)
    except ScenarioError as error:
        raise ScenarioError(f"{path}:{error}") from None
    for field, value in (overrides or {}).items():
        _override(data, field, value)
    return _validate(data, str(path), lines)


def make_scenario(data: dict[str, Any], origin: str = "scenario") -> Scenario:
    """Build a scenario from plain values.

    Raises
    ------
    ScenarioError
        As `load_scenario`.
    """
    return _validate(data, origin, {})


def _override(data: dict[str, Any], field: str, value: Any) -> None:
    *parents, last = field.split(".")
    for parent in parents:
        data = data.setdefault(parent, {})
        if not isinstance(data, dict):
            raise ScenarioError(f"{field}: {parent} is one value in the file and has no fields")
    data[last] = value


def _mark(node: Any, place: Place, lines: dict[Place, int]) -> None:
    import yaml

    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.value in seen:
                raise ScenarioError(f"{line}: {key.value} stands twice, first in line {seen[key.value]}; keep one")
            seen[key.value] = line
            _mark(value, (*place, key.value), lines)
            lines[(*place, key.value)] = line
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _mark(value, (*place, index), lines)


def _validate(data: dict[str, Any], file: str, lines: dict[Place, int]) -> Scenario:
    from pydantic import ValidationError

    from .scenario import Scenario

    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        items = error.errors()
    # A misspelt field is both unknown and missing; the unknown one tells more.
    first = min(items, key=lambda item: (item["type"] == "missing", _line(item["loc"], lines) or 0))
    more = f" (and {len(items) - 1} more)" if len(items) > 1 else ""
    line = _line(first["loc"], lines)
    raise ScenarioError(f"{file}{f':{line}' if line else ''}: {_message(first, Scenario)}{more}")


def _line(loc: Place, lines: dict[Place, int]) -> int | None:
    known = tuple(part for part in loc)
    while known and known not in lines:
        known = known[:-1] if known[:-1] in lines or len(known) == 1 else _without_tag(known, lines)
    return lines.get(known)


def _without_tag(loc: Place, lines: dict[Place, int]) -> Place:
    """Drop the part that pydantic adds for the chosen member of a union, or else the last part."""
    for index in range(len(loc)):
        if loc[:index] in lines and loc[: index + 1] not in lines:
            return (*loc[:index], *loc[index + 1 :])
    return loc[:-1]


def _message(item: Any, model: type[BaseModel]) -> str:
    loc: Place = item["loc"]
    field = ".".join(str(part) for part in loc if part not in ("fixed", "lognormal", "quantiles", "gqa", "mla"))
    value = item["input"]
    shown = f" = {value!r}" if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    kind = item["type"]
    if kind == "extra_forbidden":
        names = _fields_at(model, loc[:-1])
        near = difflib.get_close_matches(str(loc[-1]), names, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
        return f"{field}{shown}: is not a field of a scenario; {hint}"
    if kind == "missing":
        return f"{field}: is missing; add it"
    text = str(item.get("ctx", {}).get("error", "")) or item["msg"]
    if kind == "literal_error":
        text = f"must be one of {item['ctx']['expected']}"
    if kind == "union_tag_not_found":
        text = "has no distribution; write distribution: lognormal, quantiles or fixed"
    text = text[0].lower() + text[1:]
    return f"{field}{shown}: {text}" if field else text


def _fields_at(model: Any, loc: Place) -> list[str]:
    from pydantic import BaseModel

    def members(annotation: Any) -> list[Any]:
        return [annotation, *(m for a in get_args(annotation) for m in members(a))]

    options = [model]
    for name in loc:
        if isinstance(name, int):
            continue
        following = [
            m
            for option in options
            if name in option.model_fields
            for m in members(option.model_fields[name].annotation)
            if isinstance(m, type) and issubclass(m, BaseModel)
        ]
        tagged = [o for o in options if any(name in get_args(f.annotation) for f in o.model_fields.values())]
        options = following or tagged or options
    return sorted({field for option in options for field in option.model_fields})
