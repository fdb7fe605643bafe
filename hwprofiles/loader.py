"""Read profile files: strict YAML, provenance, ``extends``, validation, and from there to typed profiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import FieldError, Problem, ProfileError, nearest, shorten
from .expand import FIGURE_SECTIONS, expand, figures_of, overlay
from .figure import Figure, Source
from .profile import DeviceProfile, SystemProfile
from .yaml_tree import Tree, parse, read_text

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Find = Callable[[str], Path]
DEVICE_KINDS = ("gpu", "cpu", "tpu")
KINDS = (*DEVICE_KINDS, "system")
# What holds for one product only. Explanations of disagreements stay with the figures that they explain.
_NOT_TAKEN_OVER = ("name", "title", "aliases", "note", "match", "prices", "anchors", "extends")


def read_profile(path: Path, find: Find) -> DeviceProfile | SystemProfile:
    """Return the profile in a file.

    Parameters
    ----------
    path
        The file.
    find
        Returns the path of another profile by name, for ``extends`` and the devices of a system; raises
        `LookupError` with a hint.

    Raises
    ------
    ProfileError
        If anything in it is wrong; it holds every problem found.
    OSError
        If the file cannot be read.
    """
    tree = _read_tree(path, find, ())
    if isinstance(tree.data.get("name"), str) and tree.data["name"] != path.stem:
        message = f"differs from the file's name; write {path.stem}, or rename the file"
        raise ProfileError([Problem(*tree.mark(("name",)), "name", shorten(tree.data["name"]), message)])
    return _system(tree, path, find) if tree.data.get("kind") == "system" else _device(tree, path)


def _read_tree(path: Path, find: Find, seen: tuple[str, ...]) -> Tree:
    tree = parse(read_text(path), str(path))
    expand(tree)
    parent = tree.data.pop("extends", None)
    if parent is None:
        return tree
    here = str(path)
    mark = tree.mark(("extends",))
    if not isinstance(parent, str):
        raise ProfileError(
            [Problem(*mark, "extends", shorten(str(parent)), "must be the name of one profile or family")]
        )
    if here in seen:
        circle = " -> ".join(Path(name).stem for name in (*seen[seen.index(here) :], here))
        raise ProfileError([Problem(*mark, "extends", parent, f"goes in a circle: {circle}; remove one of them")])
    try:
        parent_path = find(parent)
    except LookupError as error:
        raise ProfileError([Problem(*mark, "extends", parent, str(error))]) from None
    base = _read_tree(parent_path, find, (*seen, here))
    for name in _NOT_TAKEN_OVER:
        base.data.pop(name, None)
    return overlay(base, tree)


def _validate(model: type[BaseModel], tree: Tree) -> Any:
    from pydantic import ValidationError

    try:
        return model.model_validate(tree.data)
    except ValidationError as error:
        raise ProfileError(_problems(error, model, tree)) from None


def _problems(error: ValidationError, model: type[BaseModel], tree: Tree) -> list[Problem]:
    made = []
    for item in error.errors():
        loc = tuple(str(part) for part in item["loc"] if part != "[key]")
        cause = item.get("ctx", {}).get("error")
        value = item["input"]
        message = _message(item, model, loc)
        shown = shorten(str(value)) if isinstance(value, str | int | float) else ""
        if isinstance(cause, FieldError):
            loc, shown, message = (*loc, *cause.suffix), cause.value, cause.message
        made.append(Problem(*tree.mark(loc), ".".join(loc), shown, message))
    return sorted(made, key=lambda p: (p.file, p.line or 0))


def _message(item: Any, model: type[BaseModel], loc: tuple[str, ...]) -> str:
    if item["type"] == "extra_forbidden":
        return f"is not a field of a profile here; {nearest(loc[-1], _fields_at(model, loc[:-1]))}"
    if item["type"] == "missing":
        return "is missing; add it"
    if item["type"] == "literal_error":
        return f"must be one of {item['ctx']['expected']}".replace(" or ", ", ")
    if item["type"] == "string_pattern_mismatch":
        example = "a web address" if loc[-1] == "url" else "lower-case letters, digits and - . +, such as b200-hgx"
        return f"must be {example}"
    return f"{item['msg'][0].lower()}{item['msg'][1:]}; see roofcast hw schema"


def _fields_at(model: Any, loc: tuple[str, ...]) -> list[str]:
    """Return the field names of the model at a path."""
    from typing import get_args

    from pydantic import BaseModel

    for name in loc:
        if name.isdigit():  # an item of a list
            continue
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            break
        info = model.model_fields.get(name)
        options = [info.annotation, *get_args(info.annotation)] if info else []
        options += [a for option in options for a in get_args(option)]
        model = next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def _identity(spec: Any, tree: Tree, path: Path, extra: dict[str, Source] | None = None) -> dict[str, Any]:
    fields = {name: getattr(spec, name, None) for name in FIGURE_SECTIONS}
    figures = figures_of(fields)
    listed = {key: Source(key, s.title, s.date, s.url) for key, s in spec.sources.items()}
    used = dict.fromkeys(key for f in figures.values() if isinstance(f, Figure) for key in f.sources)
    return {
        "name": spec.name,
        "title": spec.title,
        "kind": spec.kind,
        "vendor": spec.vendor,
        "status": spec.status,
        "status_note": spec.status_note,
        "aliases": tuple(alias.name for alias in spec.aliases),
        "dates": spec.dates.model_dump(exclude_none=True) if spec.dates else {},
        "note": spec.note,
        "path": path,
        "fields": figures,
        "sources": {key: listed[key] for key in listed if key in used} | (extra or {}),
        "disagreements": dict(spec.disagreements),
    }


def _device(tree: Tree, path: Path) -> DeviceProfile:
    from .schema import DeviceFile

    if tree.data.get("kind") not in KINDS:
        value = str(tree.data.get("kind", ""))
        raise ProfileError([Problem(*tree.mark(("kind",)), "kind", value, f"must be one of {', '.join(KINDS)}")])
    spec = _validate(DeviceFile, tree)
    return DeviceProfile(
        **_identity(spec, tree, path),
        architecture=spec.architecture,
        chip=spec.chip,
        compile_target=spec.compile_target,
        match=spec.match.model_dump(exclude_none=True) if spec.match else None,
    )


def _part(spec: Any, which: str, tree: Tree, find: Find) -> DeviceProfile | None:
    part = getattr(spec, which)
    if part is None:
        return None
    mark = tree.mark((which, "profile"))
    try:
        path = find(part.profile)
    except LookupError as error:
        raise ProfileError([Problem(*mark, f"{which}.profile", part.profile, str(error))]) from None
    device = _read_tree(path, find, ())
    if part.override:
        prefix = (which, "override")
        marks = {p[2:]: m for p, m in tree.marks.items() if p[:2] == prefix}
        cited = {"sources": dict(tree.data["sources"])}
        device = overlay(device, Tree({**part.override, **cited}, marks))
    return _device(device, path)


def _system(tree: Tree, path: Path, find: Find) -> SystemProfile:
    from .schema import SystemFile

    spec = _validate(SystemFile, tree)
    gpu, cpu = _part(spec, "gpu", tree, find), _part(spec, "cpu", tree, find)
    parts = {key: s for device in (cpu, gpu) if device for key, s in device.sources.items()}
    return SystemProfile(
        **_identity(spec, tree, path, parts),
        gpu=gpu,
        gpu_count=spec.gpu.count if spec.gpu else 0,
        cpu=cpu,
        cpu_count=spec.cpu.count if spec.cpu else 0,
    )
