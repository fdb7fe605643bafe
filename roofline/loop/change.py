"""Change fields of a scenario by their dotted name, with the same checks as a file."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from .scenario import Scenario
from .scenario_file import ScenarioError


def changed(scenario: Scenario, changes: Mapping[str, Any], *, check: bool = True) -> Scenario:
    """Return the scenario with some fields replaced.

    Parameters
    ----------
    changes
        Values by dotted field: ``cluster.gpus``, ``lengths.response.sigma``, ``parameters.step.overhead_s``,
        ``prices.gpu_per_hour.b200-hgx``, ``model``. Quantities carry units, as in a file.
    check
        False leaves out whether the fields are possible together, for callers that ask `problem` themselves.

    Raises
    ------
    ScenarioError
        If a field does not exist, a value is not possible, or they are not possible together.
    """
    made = scenario
    for field, value in changes.items():
        made = value(made) if isinstance(value, Setter) else _replace(made, field, field.split("."), value)
    if check and (text := problem(made)):
        raise ScenarioError(f"{', '.join(f'{k} = {v}' for k, v in changes.items())}: {text}")
    return made


@dataclass(frozen=True)
class Setter:
    """A checked value of a field, to be put into many scenarios without checking it again."""

    names: tuple[str, ...]
    value: Any

    @classmethod
    def of(cls, scenario: Scenario, field: str, value: Any) -> Setter | None:
        """Return a setter; nothing for a field that is only possible together with its neighbours.

        Raises
        ------
        ScenarioError
            If the field does not exist or the value is not possible.
        """
        made: Any = _replace(scenario, field, field.split("."), value)
        names: list[str] = []
        parts = field.split(".")
        for index, name in enumerate(parts):
            if hasattr(made, "survival"):
                return None
            if isinstance(made, dict):
                rest = ".".join(parts[index:])
                return cls((*names, rest), made[rest])
            names.append(_known(made, name, field))
            made = getattr(made, names[-1])
        return cls(tuple(names), made)

    def __call__(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the value."""
        return _put(scenario, self.names, self.value)


def _put(part: Any, names: tuple[str, ...], value: Any) -> Any:
    if isinstance(part, dict):
        return {**part, names[0]: value}
    new = value if len(names) == 1 else _put(getattr(part, names[0]), names[1:], value)
    return part.model_copy(update={names[0]: new})


def problem(scenario: Scenario) -> str | None:
    """Return why the fields of a scenario are not possible together, or nothing."""
    for part in (
        scenario.cluster,
        *((scenario.rollout.speculative,) if scenario.rollout.speculative else ()),
        scenario,
    ):
        try:
            part.check()
        except ValueError as error:
            return str(error)
    return None


def field_value(scenario: Scenario, field: str) -> Any:
    """Return the value of a dotted field.

    Raises
    ------
    ScenarioError
        If it does not exist.
    """
    at: Any = scenario
    parts = field.split(".")
    for index, name in enumerate(parts):
        if isinstance(at, dict):
            return at.get(".".join(parts[index:]))
        if at is None:
            return None
        at = getattr(at, _known(at, name, field))
    return at


def _replace(part: Any, field: str, names: list[str], value: Any) -> Any:
    attribute = _known(part, names[0], field)
    old = getattr(part, attribute)
    if len(names) == 1:
        new = _read(part, attribute, field, value, value)
    elif isinstance(old, dict):
        new = {**old, **_read(part, attribute, field, {".".join(names[1:]): value}, value)}
    elif hasattr(old, "survival"):  # lengths: their fields are only possible together
        _known(old, names[1], field)
        new = _read(part, attribute, field, {**old.model_dump(by_alias=True), names[1]: value}, value)
    elif old is None:
        raise ScenarioError(f"{field}: the scenario has no {names[0]}; give all of it as one value")
    else:
        new = _replace(old, field, names[1:], value)
    return part.model_copy(update={attribute: new})


def _read(part: Any, attribute: str, field: str, value: Any, shown: Any) -> Any:
    from pydantic import TypeAdapter, ValidationError

    info = type(part).model_fields[attribute]
    try:
        if attribute == "model":
            value = Scenario._named_model(value)
        extra = [*info.metadata, *([Field(discriminator=info.discriminator)] if info.discriminator else [])]
        annotation: Any = Annotated[info.annotation, *extra] if extra else info.annotation
        return TypeAdapter[Any](annotation).validate_python(value)
    except ValidationError as error:
        item = error.errors()[0]
        text = str(item.get("ctx", {}).get("error", "")) or item["msg"]
        raise ScenarioError(f"{field} = {shown!r}: {text[0].lower()}{text[1:]}") from None
    except ValueError as error:
        raise ScenarioError(f"{field} = {shown!r}: {error}") from None


def _known(part: Any, name: str, field: str) -> str:
    fields = type(part).model_fields if hasattr(type(part), "model_fields") else {}
    by_alias = {info.alias or key: key for key, info in fields.items()}
    if name in by_alias:
        return by_alias[name]
    near = difflib.get_close_matches(name, by_alias, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(by_alias) or 'none'}"
    raise ScenarioError(f"{field}: {name} is not a field of a scenario; {hint}")
