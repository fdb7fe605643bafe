"""What every command takes besides its own options: where hardware profiles come from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

HWPROFILES_HELP = "Further hardware profiles; one of the same name replaces the shipped one."
_NAME = "hwprofiles"
_Directory = Annotated[Path | None, typer.Option("--hwprofiles", metavar="DIR", help=HWPROFILES_HELP)]


def use_profiles(directory: Path | None) -> None:
    """Take profiles from a further directory, if one is given.

    Raises
    ------
    NotADirectoryError
        If it is none.
    """
    if directory is not None:
        from ..hwprofiles import use_directory

        use_directory(directory)


def _with_profiles(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a command with one more option, which is served before the function runs."""

    @wraps(function)
    def command(*args: Any, **kwargs: Any) -> Any:
        use_profiles(kwargs.pop(_NAME, None))
        return function(*args, **kwargs)

    signature = inspect.signature(function, eval_str=True)
    option = inspect.Parameter(_NAME, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Directory)
    made: Any = command
    made.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])
    made.__annotations__ = {name: p.annotation for name, p in made.__signature__.parameters.items()}
    return made


class App(typer.Typer):
    """An application whose commands take ``--hwprofiles``."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Register a command; see ``typer.Typer.command``."""
        register = super().command(name, **options)

        def decorate(function: Any) -> Any:
            register(_with_profiles(function))
            return function

        return decorate
