"""``roofcast hw``: the hardware profiles, and measuring one of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._command import HWPROFILES_HELP, use_profiles
from ._options import Json

app = typer.Typer(
    no_args_is_help=True,
    help="Hardware profiles: what devices can do, each figure with its source.",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A device or system; names are forgiving: b200, 'vr nvl72'.")]


@app.callback()
def main(
    hwprofiles: Annotated[
        Path | None,
        typer.Option(
            "--hwprofiles",
            metavar="DIR",
            envvar="ROOFCAST_HWPROFILES",
            help=HWPROFILES_HELP,
        ),
    ] = None,
) -> None:
    """Choose where profiles come from besides the shipped ones and ~/.config/roofcast/hwprofiles."""
    use_profiles(hwprofiles)


@app.command("list")
def list_profiles(
    kind: Annotated[str | None, typer.Option(help="gpu, cpu, tpu or system.")] = None,
    vendor: Annotated[str | None, typer.Option(help="nvidia, amd, intel, google or aws.")] = None,
    json: Json = False,
) -> None:
    """List the profiles with their headline figures, status and confidence.

    Example: roofcast hw list --kind gpu --vendor nvidia
    """
    from ..hwprofiles.summary import summaries
    from ._hw_output import print_list
    from ._output import print_json

    rows = summaries(kind=kind, vendor=vendor)
    if json:
        print_json([row.as_dict() for row in rows])
        return
    print_list(rows)


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show every figure of a profile with its range, confidence, date and sources.

    Example: roofcast hw show rubin
    """
    from ..hwprofiles import load
    from ._hw_output import print_profile
    from ._output import print_json

    profile = load(name)
    if json:
        print_json(profile.as_dict())
        return
    print_profile(profile)


@app.command()
def compare(
    profiles: Annotated[list[str], typer.Argument(metavar="NAME...", help="Two or more devices or systems.")],
    notes: Annotated[bool, typer.Option("--notes", help="Print why figures are uncertain, too.")] = False,
    json: Json = False,
) -> None:
    """Lay profiles side by side, with ratios to the first and ranges where sources differ.

    Example: roofcast hw compare b200 gb300 rubin
    """
    from ..hwprofiles import load
    from ..hwprofiles.comparison import compare as rows_of
    from ._hw_output import print_comparison
    from ._options import split_names
    from ._output import print_json

    loaded = [load(name) for name in split_names(profiles)]
    rows = rows_of(loaded)
    if json:
        print_json({"profiles": [p.name for p in loaded], "rows": [row.as_dict() for row in rows]})
        return
    print_comparison(loaded, rows, notes=notes)


@app.command()
def check(
    file: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="Profile files (default: all).")
    ] = None,
    json: Json = False,
) -> None:
    """Check profiles: form, units, sources, and each figure against what can be computed from the others.

    Exits with 2 if a file is wrong, and with 1 if a disagreement above 3 % is not explained in its file.

    Example: roofcast hw check my-gpu.yaml
    """
    from ..hwprofiles.crosscheck import audit
    from ._hw_output import print_audit
    from ._output import print_json

    found = audit(file or None)
    if json:
        print_json(found.as_dict())
    else:
        print_audit(found)
    if found.problems:
        raise typer.Exit(2)
    if found.unexplained:
        raise typer.Exit(1)


@app.command()
def identify(json: Json = False) -> None:
    """Show which profiles the CPU and the GPUs of this machine have, and what limits, slices and quotas do to them.

    Example: roofcast hw identify
    """
    from ..profiler.live_identity import identify_machine
    from ._hw_output import print_identities
    from ._output import print_json

    found = identify_machine()
    if json:
        print_json([item.as_dict() for item in found])
        return
    print_identities(found)


@app.command()
def probe(
    device: Annotated[str, typer.Option(help="cpu, cuda:0, ...")] = "cpu",
    name: Annotated[str | None, typer.Option(help="Name of the profile (default: from the device's name).")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write (default: ~/.config/roofcast/hwprofiles).")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a profile of that name.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Measure all ceilings (minutes) instead of the main ones.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure this machine's ceilings and write them as a profile of your own.

    Example: roofcast hw probe --device cuda:0
    """
    from ..hwprofiles import load_file
    from ..profiler.devices import check_device
    from ..profiler.live_identity import probe_device
    from ._hw_output import print_profile, progress_bar
    from ._output import console, print_json

    check_device(device)
    with progress_bar() as progress:
        task = progress.add_task("ceilings", total=None)
        path = probe_device(
            device, name=name, directory=out, replace=replace, full=full,
            progress=lambda ceiling: progress.update(task, description=ceiling),
        )  # fmt: skip
    profile = load_file(path)
    if json:
        print_json({"path": str(path), **profile.as_dict()})
        return
    print_profile(profile)
    console().print(f"written to {path}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of a profile file, for editors that check YAML.

    Example: roofcast hw schema > hwprofile.schema.json
    """
    from ..hwprofiles.schema import json_schema
    from ._output import print_json

    print_json(json_schema())
