"""``delassus bench`` and ``delassus reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from delassus.errors import ModelError
from delassus_studies.claims import reproduce
from delassus_studies.figures import check_folder
from delassus_studies.tables import check_target, publish
from delassus_studies.terminal import Console

bench_app = typer.Typer(help="Benchmarks: operations and times, measured here.", no_args_is_help=True)
reproduce_app = typer.Typer(help="Claims of the papers, measured here and judged one by one.", no_args_is_help=True)
console = Console()

ROBOT_FILES = ("atlas_v4.urdf", "iiwa.urdf", "shadow_hand.xml")
"""Files of robots that some claims are about."""


SHORT = "less than a minute"
"""How long a benchmark takes with ``--quick``."""


def _figures(folder: Path | None) -> Path | None:
    return folder and check_folder(folder)


def _robots(folder: Path | None) -> Path | None:
    """Refuse a folder that holds none of the files."""
    if folder is not None and not any((folder / name).is_file() for name in ROBOT_FILES):
        came = "a folder without any of them" if folder.is_dir() else "no folder"
        raise ModelError(f"--robots {str(folder)!r}", f"a folder with {', '.join(ROBOT_FILES)}", came,
                         "Leave it out: what needs them is not measured then.")  # fmt: skip
    return folder


Plot = Annotated[
    Path | None,
    typer.Option("--plot", callback=_figures, help="Draw figures (PNG) into this folder; needs the extra plot."),
]
Json = Annotated[
    Path | None, typer.Option("--json", callback=check_target, help="Write the figures to this JSON file.")
]
Csv = Annotated[Path | None, typer.Option("--csv", callback=check_target, help="Write the tables to this CSV file.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small case only, timed once: to see what comes out.")]
Robots = Annotated[
    Path | None,
    typer.Option(
        callback=_robots,
        help="Folder with atlas_v4.urdf, iiwa.urdf and shadow_hand.xml; claims whose file is not there are not "
        "measured. This package has none of them: such models are atlas_v4_description of robot_descriptions, "
        "kuka_iiwa/model.urdf of pybullet_data, and the hand of adroit_hand in gymnasium_robotics.",
    ),
]
QuickClaims = Annotated[bool, typer.Option("--quick", help="Only claims that take seconds, not minutes.")]


@bench_app.command("osim")
def bench_osim(
    plot: Plot = None,
    file: Json = None,
    csv: Csv = None,
    quick: Quick = False,
    states: Annotated[int, typer.Option(help="States in a batch.")] = 512,
) -> None:
    """Count operations and time NumPy, per state, of every method on the benchmark robots, beside Pinocchio."""
    from delassus_studies.bench_osim import draw, measure, tables

    publish(console, measure(states, quick), tables, file, plot, draw, csv, takes=SHORT if quick else "half a minute")


@bench_app.command("speed")
def bench_speed(file: Json = None, csv: Csv = None, quick: Quick = False) -> None:
    """Time compiled kernels on the benchmark robots, beside Pinocchio, CasADi's C code and frax in the same run."""
    from delassus_studies.bench_speed import measure, tables

    publish(console, measure(quick), tables, file, csv=csv, takes=SHORT if quick else "about two minutes")


@bench_app.command("dynamics")
def bench_dynamics(
    file: Json = None,
    csv: Csv = None,
    phases: Annotated[bool, typer.Option("--phases", help="Count operations by phase instead.")] = False,
    quick: Quick = False,
) -> None:
    """Time compiled constrained dynamics and its derivatives, beside Pinocchio and MuJoCo in the same run."""
    from delassus_studies.bench_dynamics import measure, measure_phases, phase_tables, tables

    if phases:
        publish(console, measure_phases(quick), phase_tables, file, csv=csv, takes=SHORT if quick else "some minutes")
    else:
        publish(console, measure(quick), tables, file, csv=csv, takes=SHORT if quick else "some minutes")


@bench_app.command("loops")
def bench_loops(file: Json = None, csv: Csv = None, quick: Quick = False) -> None:
    """Count and time constrained dynamics of mechanisms with up to 100 loops, beside Pinocchio's lcaba."""
    from delassus_studies.bench_loops import measure, tables

    publish(console, measure(quick), tables, file, csv=csv, takes=SHORT if quick else "some minutes")


@bench_app.command("arrays")
def bench_arrays(
    file: Json = None,
    csv: Csv = None,
    dask: Annotated[bool, typer.Option("--dask", help="Blocks on one worker process and on two instead.")] = False,
    quick: Quick = False,
) -> None:
    """Time calls with arrays of JAX and PyTorch, and their gradients, beside pure_callback and frax."""
    from delassus_studies import bench_arrays, bench_dask

    chosen = bench_dask if dask else bench_arrays
    takes = SHORT if quick else "a minute" if dask else "half a minute"
    publish(console, chosen.measure(quick), chosen.tables, file, csv=csv, takes=takes)


@bench_app.command("scaling")
def bench_scaling(
    plot: Plot = None,
    file: Json = None,
    csv: Csv = None,
    largest: Annotated[int | None, typer.Option(min=20, help="No more links, and no more rows, than this.")] = None,
) -> None:
    """Count and time compiled kernels against the number of links and of rows, with fitted slopes."""
    from delassus_studies.bench_growth import draw_scaling, measure_scaling, scaling_tables

    publish(console, measure_scaling(largest), scaling_tables, file, plot, draw_scaling, csv, takes="some minutes")


@bench_app.command("compile")
def bench_compile(
    plot: Plot = None,
    file: Json = None,
    csv: Csv = None,
    largest: Annotated[int | None, typer.Option(min=50, help="No longer chains than this.")] = None,
) -> None:
    """Time cold compilations against the length of the program, stage by stage."""
    from delassus_studies.bench_growth import compile_tables, draw_compile, measure_compile

    publish(console, measure_compile(largest), compile_tables, file, plot, draw_compile, csv, takes="some minutes")


@bench_app.command("peak")
def bench_peak(file: Json = None, csv: Csv = None, quick: Quick = False) -> None:
    """Measure the fraction of this core's peak that kernels reach, and what bounds the rest."""
    from delassus_studies.bench_peak import measure, tables

    publish(console, measure(quick), tables, file, csv=csv, takes=SHORT if quick else "about two minutes")


@bench_app.command("errors")
def bench_errors(plot: Plot = None, file: Json = None, csv: Csv = None, quick: Quick = False) -> None:
    """Compare the true errors of dynamics kernels with their estimates, near and far from singular states."""
    from delassus_studies.bench_errors import draw, measure, tables

    publish(console, measure(quick), tables, file, plot, draw, csv, takes=SHORT if quick else "some minutes")


@bench_app.command("contact")
def bench_contact(file: Json = None, csv: Csv = None, quick: Quick = False) -> None:
    """Time a step of a pendulum that touches floor and wall, and its parts, beside MuJoCo."""
    from delassus_studies.bench_contact import measure, tables

    publish(console, measure(quick), tables, file, csv=csv, takes=SHORT if quick else "about a minute")


@bench_app.command("contact-steps")
def bench_contact_steps(plot: Plot = None, file: Json = None, csv: Csv = None, quick: Quick = False) -> None:
    """Residual of compiled contact steps against their cost, on Go1 and Talos, beside MuJoCo in the same run."""
    from delassus_studies.bench_contact_steps import draw, measure, tables

    publish(console, measure(quick), tables, file, plot, draw, csv, takes=SHORT if quick else "some minutes")


@bench_app.command("piles")
def bench_piles(file: Json = None, csv: Csv = None, quick: Quick = False) -> None:
    """Time steps of heaps, piles, stacks and a standing quadruped, beside MuJoCo."""
    from delassus_studies.bench_piles import measure, tables

    publish(console, measure(quick), tables, file, csv=csv, takes=SHORT if quick else "five to ten minutes")


@reproduce_app.command("osim")
def reproduce_osim(
    robots: Robots = None, plot: Plot = None, file: Json = None, csv: Csv = None, quick: QuickClaims = False
) -> None:
    """Measure each claim that the papers make of the Delassus algorithms."""
    from delassus_studies.claims_families import FAMILY_CLAIMS
    from delassus_studies.claims_robots import ROBOT_CLAIMS

    reproduce(console, (*FAMILY_CLAIMS, *ROBOT_CLAIMS), robots, plot, file, quick, csv)


@reproduce_app.command("dynamics")
def reproduce_dynamics(
    robots: Robots = None, plot: Plot = None, file: Json = None, csv: Csv = None, quick: QuickClaims = False
) -> None:
    """Measure each claim that [LQR] makes of constrained forward dynamics."""
    from delassus_studies.claims_dynamics import DYNAMICS_CLAIMS
    from delassus_studies.claims_dynamics_times import TIME_CLAIMS

    reproduce(console, (*TIME_CLAIMS, *DYNAMICS_CLAIMS), robots, plot, file, quick, csv)


@reproduce_app.command("contact")
def reproduce_contact(plot: Plot = None, file: Json = None, csv: Csv = None, quick: QuickClaims = False) -> None:
    """Measure each claim that [OS] makes of contact dynamics."""
    from delassus_studies.claims_contact import SIZE_CLAIMS
    from delassus_studies.claims_contact_runs import RUN_CLAIMS
    from delassus_studies.claims_contact_swing import SWING_CLAIMS
    from delassus_studies.claims_contact_times import STEP_CLAIMS

    reproduce(console, (*SIZE_CLAIMS, *RUN_CLAIMS, *STEP_CLAIMS, *SWING_CLAIMS), None, plot, file, quick, csv)
