"""The typer application."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from delassus import __version__

app = typer.Typer(
    help="Constrained rigid-body dynamics: robots in, Delassus matrices out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench_app = typer.Typer(help="Measure.", no_args_is_help=True)
reproduce_app = typer.Typer(help="Measure again what the papers claim.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")
app.add_typer(reproduce_app, name="reproduce")
console = Console()


class RootOption(StrEnum):
    """What carries the root link."""

    fixed = "fixed"
    floating = "floating"


Robot = Annotated[str, typer.Argument(help="A .urdf or .xml file, or a name such as talos_reduced or go1.")]
RootChoice = Annotated[RootOption, typer.Option("--root", help="What carries the root link of a URDF file.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Folder to draw figures into, as PNG.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the raw figures to this file.")]


def _version(asked: bool) -> None:
    if asked:
        console.print(f"delassus {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Constrained rigid-body dynamics: robots in, Delassus matrices out."""


@app.command()
def demo() -> None:
    """Run every method on a real robot and check each against an independent oracle."""
    from delassus.cli.demo import run

    if not run(console):
        raise typer.Exit(1)


@app.command()
def info(robot: Robot, root: RootChoice = RootOption.fixed, frames: bool = False) -> None:
    """Say what a robot is: links, joints, mass, and with --frames every name that a constraint can use."""
    from delassus.model.load import load
    from delassus.model.tree import total_mass

    tree = load(robot, root=root.value)
    console.print(
        f"[bold]{tree.name}[/]: {tree.n_links} moving links, nq = {tree.nq}, nv = {tree.nv}, depth {tree.depth}, "
        f"mass {total_mass(tree):.4g} kg, {len(tree.frames)} frames"
    )
    table = Table()
    for column in ("#", "joint", "kind", "q", "v", "parent", "link", "mass (kg)"):
        table.add_column(column, justify="right" if column in ("#", "q", "v", "mass (kg)") else "left")
    for i, joint in enumerate(tree.joints):
        parent = tree.link_names[tree.parents[i]] if tree.parents[i] >= 0 else "(world)"
        spans = [f"{s.start}" if s.stop == s.start + 1 else f"{s.start}–{s.stop - 1}"
                 for s in (tree.q_slices[i], tree.v_slices[i])]  # fmt: skip
        mass = f"{tree.inertias[i][0, 0]:.4g}"
        table.add_row(str(i), joint.name, joint.kind.value, *spans, parent, tree.link_names[i], mass)
    console.print(table)
    if frames:
        names = Table("frame", "on link")
        for name, at in tree.frames.items():
            names.add_row(name, tree.link_names[at.link] if at.link >= 0 else "(world)")
        console.print(names)


@app.command()
def compute(
    robot: Robot,
    root: RootChoice = RootOption.fixed,
    weld: Annotated[list[str] | None, typer.Option(help="LINK or LINK,LINK: six rows.")] = None,
    point: Annotated[list[str] | None, typer.Option(help="LINK, LINK@x,y,z or LINK,LINK: three rows.")] = None,
    method: Annotated[str, typer.Option(help="Algorithm.")] = "pv-osimr",
    q: Annotated[Path | None, typer.Option(help="Configurations (.npy or text); random if not given.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random configuration.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write G to this .npy file instead of printing it.")] = None,
) -> None:
    """Compute the Delassus matrix of a robot under constraints."""
    from delassus.algorithms.evaluate import delassus
    from delassus.cli.parse import parse_constraints, read_configuration
    from delassus.model.load import load

    tree = load(robot, root=root.value)
    constraints = parse_constraints(weld or [], point or [])
    state = tree.random(seed) if q is None else read_configuration(q)
    G = delassus(tree, constraints, state, method=method)
    m = G.shape[-1]
    console.print(
        f"{tree.name}: G {' × '.join(map(str, G.shape))} by {method}, rows of {', '.join(map(repr, constraints))}"
    )
    if out is not None:
        np.save(out, G)
        console.print(f"written to {out}")
        return
    for matrix in G.reshape(-1, m, m):
        print(np.array2string(matrix, precision=4, suppress_small=True, max_line_width=200, threshold=10**6))
        values = np.linalg.eigvalsh(matrix)
        rank = int(np.sum(values > 1e-10 * values[-1]))
        console.print(f"eigenvalues {values[0]:.3e} … {values[-1]:.3e}, rank {rank} of {m}")


@app.command()
def export(
    robot: Robot,
    root: RootChoice = RootOption.fixed,
    weld: Annotated[list[str] | None, typer.Option(help="LINK or LINK,LINK: six rows.")] = None,
    point: Annotated[list[str] | None, typer.Option(help="LINK, LINK@x,y,z or LINK,LINK: three rows.")] = None,
    what: Annotated[str, typer.Option(help="delassus, osim, dynamics, inverse_dynamics, mass_matrix, …")] = "delassus",
    method: Annotated[str, typer.Option(help="Algorithm.")] = "auto",
    payload: Annotated[
        list[str] | None, typer.Option(help="LINK whose inertia gets an addition with each call.")
    ] = None,
    frame: Annotated[list[str] | None, typer.Option(help="LINK or LINK@x,y,z: a pose of kinematics.")] = None,
    wrench: Annotated[list[str] | None, typer.Option(help="LINK or LINK@x,y,z: an external wrench.")] = None,
    compliance: Annotated[float | None, typer.Option(help="Makes all constraints soft.")] = None,
    active: Annotated[bool, typer.Option("--active", help="Constraints are switched on and off in calls.")] = False,
    single: Annotated[bool, typer.Option("--float", help="float instead of double.")] = False,
    out: Annotated[Path, typer.Option(help="Folder to write into.")] = Path(),
) -> None:
    """Write C99 that computes the Delassus matrix of a robot, or its dynamics, and needs only math.h."""
    from delassus.algorithms.inputs import check_payloads
    from delassus.cli.parse import parse_constraints, parse_frame
    from delassus.compiler.emit.c import write_c
    from delassus.compiler.pipeline import make_program
    from delassus.compiler.setting import Options, check_options
    from delassus.compiler.tasks import find_method, find_task
    from delassus.constraints import check_constraints
    from delassus.model.load import load

    tree, task = load(robot, root=root.value), find_task(what)
    options: Options = {}
    if frame:
        options["frames"] = [parse_frame(text) for text in frame]
    if wrench:
        options["wrenches"] = [parse_frame(text) for text in wrench]
    if compliance is not None:
        options["compliance"] = compliance
    if active:
        options["active"] = True
    needed = what in ("delassus", "osim", "jacobian")
    constraints = check_constraints(tree, parse_constraints(weld or [], point or [], needed))
    setting = check_options(tree, constraints, what, task.options, options)
    find_method(what, method, setting.soft(constraints))
    program = make_program(tree, constraints, what, method, check_payloads(tree, payload or ()), setting)
    for path in write_c(program, out, "float" if single else "double"):
        console.print(f"{path}", highlight=False)
    console.print(f"{program.graph.count().total:,} operations a state")


@app.command()
def simulate(
    scene: Annotated[str, typer.Argument(help="pendulum, dual-arm, boxes or quadruped.")],
    links: Annotated[int | None, typer.Option(min=1, help="Links of the pendulum, or number of boxes.")] = None,
    duration: Annotated[float | None, typer.Option(help="Time to simulate (s).")] = None,
    dt: Annotated[float | None, typer.Option(help="Time step (s).")] = None,
    formulation: Annotated[str | None, typer.Option(help="os, nmc-os, rmc, mc or nmc.")] = None,
    solver: Annotated[str | None, typer.Option(help="lemke, pgs, nsgs or admm.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of random numbers.")] = None,
    view: Annotated[bool, typer.Option("--view", help="Show it in the browser, until Ctrl-C.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Of the page.")] = 8080,
    plot: Annotated[Path | None, typer.Option(help="Draw the figure into this .png file.")] = None,
    record: Annotated[Path | None, typer.Option(help="Write all samples to this .npz or .h5 file.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Save the state at the end to this .npz or .h5 file.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on from this checkpoint.")] = None,
) -> None:
    """Simulate a scene with contacts: a pendulum, two arms, falling boxes, or a quadruped."""
    from delassus.cli.simulate import Request, run

    given = {"formulation": formulation, "solver": solver, "seed": seed}
    options = {name: value for name, value in given.items() if value is not None}
    run(console, Request(scene, links, duration, dt, options, view, port, plot, record, checkpoint, resume))


@bench_app.command("osim")
def bench_osim(plot: Plot = None, states: Annotated[int, typer.Option(help="States in a batch.")] = 512) -> None:
    """Operations and NumPy time per state of every method on the benchmark robots, beside Pinocchio."""
    from delassus.cli.bench_osim import run

    run(console, plot, states)


@bench_app.command("speed")
def bench_speed(file: Json = None) -> None:
    """Time compiled kernels on the benchmark robots, beside Pinocchio, CasADi's C code and frax in the same run."""
    from delassus.cli.bench_speed import run

    run(console, file)


@bench_app.command("dynamics")
def bench_dynamics(
    file: Json = None,
    phases: Annotated[bool, typer.Option("--phases", help="Count operations by phase instead.")] = False,
) -> None:
    """Time compiled constrained dynamics and its derivatives, beside Pinocchio and MuJoCo in the same run."""
    from delassus.cli import bench_dynamics, phases_dynamics

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
    from delassus.cli.bench_scaling import run

    run(console, plot, file, largest)


@bench_app.command("compile")
def bench_compile(
    plot: Plot = None,
    file: Json = None,
    largest: Annotated[int | None, typer.Option(min=50, help="No longer chains than this.")] = None,
) -> None:
    """Seconds of cold compilations against the length of the program, stage by stage."""
    from delassus.cli.bench_compile import run

    run(console, plot, file, largest)


@bench_app.command("peak")
def bench_peak(file: Json = None) -> None:
    """Fraction of this core's measured peak that kernels reach, and what bounds the rest."""
    from delassus.cli.bench_peak import run

    run(console, file)


@reproduce_app.command("osim")
def reproduce_osim(
    robots: Annotated[
        Path | None, typer.Option(help="Folder with atlas_v4.urdf, iiwa.urdf and shadow_hand.xml.")
    ] = None,
    plot: Plot = None,
) -> None:
    """Measure each claim that the papers make of the Delassus algorithms."""
    from delassus.cli.reproduce import run
    from delassus.cli.reproduce_osim import OSIM_CLAIMS

    run(console, OSIM_CLAIMS, robots, plot)


@reproduce_app.command("dynamics")
def reproduce_dynamics(
    robots: Annotated[Path | None, typer.Option(help="Folder with atlas_v4.urdf and iiwa.urdf.")] = None,
    plot: Plot = None,
) -> None:
    """Measure each claim that [LQR] makes of constrained forward dynamics."""
    from delassus.cli.reproduce import run
    from delassus.cli.reproduce_dynamics import DYNAMICS_CLAIMS

    run(console, DYNAMICS_CLAIMS, robots, plot)


@reproduce_app.command("contact")
def reproduce_contact(plot: Plot = None) -> None:
    """Measure each claim that [OS] makes of contact dynamics."""
    from delassus.cli.reproduce_contact import run

    run(console, plot)
