"""The ``roofcast`` command: mounts the subcommands and turns errors into one clear line."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import sys
import traceback
import warnings
from importlib import metadata
from typing import Annotated, Any

import typer

from . import (
    backtest,
    bench,
    break_even,
    ceilings,
    claims,
    compare,
    compile_kernels,
    doctor,
    explain,
    export,
    hw,
    import_silicon,
    loop,
    ops,
    plan,
    plot,
    project,
    report,
    run,
    sensitivity,
    sweep,
    validate,
    what_if,
)
from ._command import App

# In the order of --help: the main job, its steps, what else measures, and what looks things up.
_COMMANDS = (
    run,
    *(bench, ceilings, plot, project, backtest, loop, report, explain),
    *(what_if, break_even, sensitivity, plan, sweep, claims, validate),
    *(compare, export, compile_kernels),
    *(ops, doctor),
)

app = App(
    name="roofcast",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measure kernels on the machine at hand and project them, with an honest band, onto hardware that is not.",
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"roofcast {metadata.version('roofcast')}")
        raise typer.Exit


@app.callback()
def _roofcast(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    pass


for _module in _COMMANDS:
    _module.register(app)
app.add_typer(hw.app, name="hw")
app.add_typer(import_silicon.app, name="import")


def main() -> None:
    """Run the command line; exit 2 on usage and input, 1 on failed cases, 130 on Ctrl-C."""
    debug = bool(os.environ.get("ROOFCAST_DEBUG"))
    if not debug:
        _show_only_own_warnings()
    _print_what_the_encoding_lacks_as_escapes()
    code: object = 0
    try:
        code = app(prog_name="roofcast", standalone_mode=False)
    except Exception as error:
        if debug:
            traceback.print_exc()
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # pyright: ignore[reportAttributeAccessIssue]
            sys.exit(2)
        _fail(_message(error), 2 if _is_input_error(error) else 1)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    """Say what is wrong in one line; a machine that asked for JSON gets a document, too."""
    if "--json" in sys.argv[1:]:
        with contextlib.suppress(OSError):
            print(json.dumps({"error": message, "exit_code": code}, indent=2), flush=True)  # noqa: T201
    print(message, file=sys.stderr)  # noqa: T201
    sys.exit(code)


def _print_what_the_encoding_lacks_as_escapes() -> None:
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _show_only_own_warnings() -> None:
    """Print the rooms' warnings as one line each; those of libraries say nothing to a user."""

    def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        if category.__module__.startswith("roofcast."):
            print(f"warning: {message}", file=sys.stderr)  # noqa: T201

    warnings.showwarning = show
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # It logs where it keeps its cache.


def _is_input_error(error: Exception) -> bool:
    """Errors that the rooms define are written for the user; so are those of the file system."""
    return type(error).__module__.startswith("roofcast.") or isinstance(error, OSError) or _is_usage(error)


def _is_usage(error: Exception) -> bool:
    """Typer's errors are known by this method; their class has no public name."""
    return hasattr(error, "format_message")


def _message(error: Exception) -> str:
    if _is_usage(error):
        text = " ".join(error.format_message().split())  # pyright: ignore[reportAttributeAccessIssue]
        context = getattr(error, "ctx", None)
        return f"error: {text.rstrip('.')}; see '{context.command_path if context else 'roofcast'} --help'"
    if isinstance(error, OSError) and error.filename is not None:
        return f"error: {error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "error: cannot write: no space left on the device; free some or write elsewhere"
    if _is_input_error(error):
        return f"error: {error}"
    where = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"internal error: {type(error).__name__}: {error} ({where.filename}:{where.lineno}); "
        "this is a bug in roofcast: set ROOFCAST_DEBUG=1 for the traceback and report it"
    )
