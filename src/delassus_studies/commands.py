"""``delassus bench`` and ``delassus reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

bench_app = typer.Typer(help="Measure.", no_args_is_help=True)
reproduce_app = typer.Typer(help="Measure again what the papers claim.", no_args_is_help=True)
console = Console()

Plot = Annotated[Path | None, typer.Option("--plot", help="Folder to draw figures into, as PNG.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the raw figures to this file.")]


@bench_app.command("osim")
def bench_osim(plot: Plot = None, states: Annotated[int, typer.Option(help="States in a batch.")] = 512) -> None:
    """Operations and NumPy time per state of every method on the benchmark robots, beside Pinocchio."""
    from delassus_studies.bench_osim import run

    run(console, plot, states)


@bench_app.command("speed")
def bench_speed(file: Json = None) -> None:
    """Time compiled kernels on the benchmark robots, beside Pinocchio, CasADi's C code and frax in the same run."""
    from delassus_studies.bench_speed import run

    run(console, file)


@bench_app.command("dynamics")
def bench_dynamics(
    file: Json = None,
    phases: Annotated[bool, typer.Option("--phases", help="Count operations by phase instead.")] = False,
) -> None:
    """Time compiled constrained dynamics and its derivatives, beside Pinocchio and MuJoCo in the same run."""
    from delassus_studies import bench_dynamics, phases_dynamics

    if phases:
        phases_dynamics.run(console)
    else:
        bench_dynamics.run(console, file)


@bench_app.command("scaling")
def bench_scaling(
    plot: Plot = None,
    file: Json = None,
    largest: Annotated[int | None, typer.Option(min=20, help="No more links, and no more rows, than this.")] = None,
) -> None:
    """Operations and time of compiled kernels against the number of links and of rows, with fitted slopes."""
    from delassus_studies.bench_scaling import run

    run(console, plot, file, largest)


@bench_app.command("compile")
def bench_compile(
    plot: Plot = None,
    file: Json = None,
    largest: Annotated[int | None, typer.Option(min=50, help="No longer chains than this.")] = None,
) -> None:
    """Seconds of cold compilations against the length of the program, stage by stage."""
    from delassus_studies.bench_compile import run

    run(console, plot, file, largest)


@bench_app.command("peak")
def bench_peak(file: Json = None) -> None:
    """Fraction of this core's measured peak that kernels reach, and what bounds the rest."""
    from delassus_studies.bench_peak import run

    run(console, file)


@bench_app.command("contact")
def bench_contact(file: Json = None) -> None:
    """Time per step of a pendulum that touches floor and wall, its shares, and MuJoCo beside it."""
    from delassus_studies.bench_contact import run

    run(console, file)


@reproduce_app.command("osim")
def reproduce_osim(
    robots: Annotated[
        Path | None, typer.Option(help="Folder with atlas_v4.urdf, iiwa.urdf and shadow_hand.xml.")
    ] = None,
    plot: Plot = None,
) -> None:
    """Measure each claim that the papers make of the Delassus algorithms."""
    from delassus_studies.reproduce import run
    from delassus_studies.reproduce_osim import OSIM_CLAIMS

    run(console, OSIM_CLAIMS, robots, plot)


@reproduce_app.command("dynamics")
def reproduce_dynamics(
    robots: Annotated[Path | None, typer.Option(help="Folder with atlas_v4.urdf and iiwa.urdf.")] = None,
    plot: Plot = None,
) -> None:
    """Measure each claim that [LQR] makes of constrained forward dynamics."""
    from delassus_studies.reproduce import run
    from delassus_studies.reproduce_dynamics import DYNAMICS_CLAIMS

    run(console, DYNAMICS_CLAIMS, robots, plot)


@reproduce_app.command("contact")
def reproduce_contact(plot: Plot = None) -> None:
    """Measure each claim that [OS] makes of contact dynamics."""
    from delassus_studies.reproduce_contact import run

    run(console, plot)
