"""The typer application."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import suppress
from enum import StrEnum
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import numpy as np
import typer
from typer.core import TyperGroup

from delassus import __version__
from delassus.cli.tables import Console, Csv, Json, check_target, table, write_csv, write_json
from delassus.errors import MissingDependencyError
from delassus.quantities.keywords import Control, Method, OsimMethod, What

if TYPE_CHECKING:  # else a command imports what it needs
    from delassus.compiler.targets.c.text import Scalar
    from delassus.quantities.request import Request

STUDIES = "demo", "reproduce", "bench"
"""Commands of `delassus_studies`, which is loaded when they are asked for."""


class Commands(TyperGroup):
    """The commands, with those of `delassus_studies` in place of what stands for them, unless they cannot be loaded."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Command of a name; None if there is none."""
        if cmd_name in STUDIES:
            with suppress(MissingDependencyError):
                return _studies()[cmd_name]
        return super().get_command(ctx, cmd_name)


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)
console = Console()


@cache
def _studies() -> MutableMapping[str, Any]:
    """Commands of `delassus_studies` by name, from its entry point."""
    found = entry_points(group="delassus.commands")
    try:
        return typer.main.get_group(found["studies"].load()).commands
    except Exception as error:
        wanted, came = "the package 'delassus_studies' with its entry point", str(error) if found else "none"
        raise MissingDependencyError("this command", wanted, came, "Install delassus again.") from error


def _stand_for(name: str) -> None:
    """Register a command of `delassus_studies` that says why that cannot be loaded."""
    anything = {"allow_extra_args": True, "ignore_unknown_options": True}

    @app.command(name, help="Cannot be loaded: run it to see why.", context_settings=anything)
    def run() -> None:
        _studies()


class RootOption(StrEnum):
    """Joint that carries the root link."""

    fixed = "fixed"
    floating = "floating"


class MasslessOption(StrEnum):
    """What to do about joints that move nothing with inertia."""

    keep = "keep"
    lock = "lock"
    armature = "armature"
    error = "error"


def _robots(incomplete: str) -> list[str]:
    """Names of robots and files that go on from what is typed, for completion by the shell."""
    from delassus.formats.names import robot_names

    folder = incomplete[: incomplete.rfind("/") + 1]
    suffixes = (".urdf", ".sdf", ".xml", ".usd", ".usda", ".usdc", ".usdz")
    paths = [path for path in sorted(Path(folder).glob("*")) if path.is_dir() or path.suffix in suffixes]
    found = [*robot_names(), *(f"{folder}{path.name}{'/' * path.is_dir()}" for path in paths)]
    return [name for name in found if name.startswith(incomplete)]


def _of(names: Any) -> Callable[[str], list[str]]:
    """Completion by the names of a `Literal`."""
    return lambda incomplete: [x for x in get_args(names) if x.startswith(incomplete)]


def _scenes(incomplete: str) -> list[str]:
    """Ready-made scenes, and then the same as of `_robots`."""
    from delassus.scenes import SCENES

    return [*(name for name in SCENES if name.startswith(incomplete)), *_robots(incomplete)]


Robot = Annotated[
    str,
    typer.Argument(help="A .urdf, .sdf, .usd or .xml (MJCF) file, or a name such as go1.", autocompletion=_robots),
]
SceneName = Annotated[
    str,
    typer.Argument(
        help="A ready-made scene: pendulum, dual-arm, boxes, quadruped, mppi, "
        "tiles, gripper, door, car, delta, humanoid, newtons-cradle, dominoes, "
        "card-house, rope-bridge, bin, conveyor; "
        "or a .urdf, .sdf, .usd or .xml (MJCF) file or a robot.",
        autocompletion=_scenes,
    ),
]
RootChoice = Annotated[
    RootOption | None,
    typer.Option(
        "--root", help="Base of a URDF file: fixed (default) or floating, as of names that walk, drive or fly."
    ),
]
MasslessChoice = Annotated[
    MasslessOption,
    typer.Option(
        "--massless", help="Joints that move nothing with inertia: keep, lock, give a small armature, or an error."
    ),
]
Floor = Annotated[bool, typer.Option("--floor", help="Of a file or robot: put it on a floor.")]
Keyframe = Annotated[
    str | None, typer.Option("--keyframe", help="Of a file or robot: its keyframe or SRDF state to start in.")
]
Hold = Annotated[
    bool | None,
    typer.Option("--hold/--no-hold", help="Servos hold joints at the start: the default without actuators."),
]
Controls = Annotated[
    list[str] | None,
    typer.Option(
        "--control", help="NAME=VALUE: constant control of an actuator, or force of a joint where a file has none."
    ),
]
SceneRoot = Annotated[
    RootOption | None, typer.Option("--root", help="Of a URDF file: floating (default) or fixed, as of arms.")
]
Port = Annotated[int, typer.Option(min=1, max=65535, help="Port of the page; the next free one if it is taken.")]
Welds = Annotated[
    list[str] | None,
    typer.Option("--weld", help="LINK or LINK,LINK: six rows; may be repeated. Without any, those of the file."),
]
Points = Annotated[
    list[str] | None, typer.Option("--point", help="LINK, LINK@x,y,z or LINK,LINK: three rows; may be repeated.")
]


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


_stand_for("demo")


@app.command()
def info(
    robot: Robot,
    root: RootChoice = None,
    massless: MasslessChoice = MasslessOption.keep,
    frames: Annotated[bool, typer.Option("--frames", help="List every name that a constraint can use.")] = False,
    file: Json = None,
    csv: Csv = None,
) -> None:
    """Show joints of a robot and where each is in q and v, limits, springs, actuators, sensors, keyframes and loops."""
    from delassus.cli.robots import show_robot
    from delassus.formats.load import load

    show_robot(console, load(robot, root=root.value if root else None, massless=massless.value), frames, file, csv)


@app.command()
def robots(
    words: Annotated[
        list[str] | None, typer.Argument(help="Words that the name, package, format or licence has; all if none.")
    ] = None,
    here: Annotated[bool, typer.Option("--here", help="Only those whose files are on this machine.")] = False,
    file: Json = None,
    csv: Csv = None,
) -> None:
    """List robots by name: base, format, licence, and whether files are on this machine or fetched at first."""
    from delassus.cli.robots import list_robots

    list_robots(console, words or (), here, file, csv)


@app.command()
def compute(
    robot: Robot,
    root: RootChoice = None,
    massless: MasslessChoice = MasslessOption.keep,
    weld: Welds = None,
    point: Points = None,
    method: Annotated[OsimMethod, typer.Option(help="Algorithm; auto: that of fewest operations.")] = "pv-osimr",
    q: Annotated[Path | None, typer.Option(help="File of configurations, .npy or text; random if not given.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random configuration.")] = 0,
    out: Annotated[
        Path | None, typer.Option(callback=check_target, help="Write G to this .npy file instead of printing it.")
    ] = None,
    file: Json = None,
    csv: Csv = None,
) -> None:
    """Compute the Delassus matrix of a robot under constraints."""
    from delassus.api.osim import delassus
    from delassus.cli.parse import parse_constraints, read_configuration
    from delassus.formats.load import load
    from delassus.model.check import written

    tree = load(robot, root=root.value if root else None, massless=massless.value)
    constraints = parse_constraints(tree, weld, point)
    state = tree.random(seed) if q is None else read_configuration(q)
    G = delassus(tree, constraints, state, method=method)
    m = G.shape[-1]
    console.print(
        f"{tree.name}: G {' × '.join(map(str, G.shape))} by {method}, rows of {', '.join(map(repr, constraints))}"
    )
    matrices = G.reshape(-1, m, m)
    if file is not None:
        told = {"name": tree.name, "method": method, "constraints": [*map(repr, constraints)], "q": state.tolist()}
        write_json(file, {**told, "G": G.tolist()})
    if csv is not None:
        write_csv(csv, [table("", [f"G{k}" for k in range(m)], ([*map(str, row)] for row in x)) for x in matrices])
    if out is not None:
        target = out if out.suffix == ".npy" else out.with_name(f"{out.name}.npy")
        with written(target, "file") as part, part.open("wb") as there:
            np.save(there, G)
        console.print(f"written to {target}")
        return
    for matrix in matrices:
        print(np.array2string(matrix, precision=4, suppress_small=True, max_line_width=console.width, threshold=10**6))
        values = np.linalg.eigvalsh(matrix)
        rank = int(np.sum(values > 1e-10 * values[-1]))
        console.print(f"eigenvalues {values[0]:.3e} … {values[-1]:.3e}, rank {rank} of {m}")


@app.command()
def export(
    robot: Robot,
    root: RootChoice = None,
    massless: MasslessChoice = MasslessOption.keep,
    weld: Welds = None,
    point: Points = None,
    what: Annotated[
        str,
        typer.Option(
            help="What to compute: delassus, osim, dynamics, inverse_dynamics, mass_matrix, …", autocompletion=_of(What)
        ),
    ] = "delassus",
    method: Annotated[
        str,
        typer.Option(help="Method for that quantity, such as pv-osim or pv-early.", autocompletion=_of(Method)),
    ] = "auto",
    payload: Annotated[
        list[str] | None, typer.Option(help="LINK: an inertia added to this link is an argument of the function.")
    ] = None,
    frame: Annotated[
        list[str] | None, typer.Option(help="LINK or LINK@x,y,z: a frame whose pose kinematics computes.")
    ] = None,
    wrench: Annotated[
        list[str] | None, typer.Option(help="LINK or LINK@x,y,z: a wrench there is an argument of the function.")
    ] = None,
    contact: Annotated[
        list[str] | None,
        typer.Option(help="LINK:RADIUS or LINK@x,y,z:RADIUS: a sphere that may touch the ground, of contact_step."),
    ] = None,
    compliance: Annotated[float | None, typer.Option(help="Compliance of all constraints: makes them soft.")] = None,
    active: Annotated[
        bool, typer.Option("--active", help="Flags that switch constraints off are an argument of the function.")
    ] = False,
    control: Annotated[
        Control | None, typer.Option(help="What drives joints: forces, actuators of the file, or targets (pd).")
    ] = None,
    output: Annotated[
        list[str] | None, typer.Option(help="Name of a result to compute, such as dqdd_dq; all if not given.")
    ] = None,
    single: Annotated[bool, typer.Option("--float", help="Write float instead of double.")] = False,
    casadi: Annotated[
        int, typer.Option(min=0, max=2, help="Order of the derivatives of a function for casadi.external; 0: none.")
    ] = 0,
    ptx: Annotated[bool, typer.Option("--ptx", help="Write PTX for GPUs of NVIDIA instead of C.")] = False,
    out: Annotated[Path, typer.Option(help="Folder to write into.")] = Path(),
) -> None:
    """Write a quantity of a robot, such as its Delassus matrix or dynamics, as C99 that needs only math.h, or PTX."""
    from delassus.cli.parse import parse_constraints, parse_contact, parse_frame
    from delassus.formats.load import load
    from delassus.quantities import find_quantity
    from delassus.quantities.keywords import Keywords
    from delassus.quantities.request import request

    tree, quantity = load(robot, root=root.value if root else None, massless=massless.value), find_quantity(what)
    options: Keywords = {}
    if frame:
        options["frames"] = [parse_frame(text) for text in frame]
    if wrench:
        options["wrenches"] = [parse_frame(text) for text in wrench]
    if compliance is not None:
        options["compliance"] = compliance
    if active:
        options["active"] = True
    if control is not None:
        options["control"] = control
    needed = all("m" in output.shape for output in quantity.outputs)
    constraints = [*map(parse_contact, contact or ()), *parse_constraints(tree, weld, point, needed)]
    asked = request(tree, constraints, quantity, method=method, payloads=payload or (), outputs=output, **options)
    _write(asked, out, "float" if single else "double", casadi, ptx)


def _write(asked: Request, out: Path, scalar: Scalar, casadi: int, ptx: bool) -> None:
    """Write the program of a request, with derivatives up to the order ``casadi``, as C or PTX."""
    from delassus.compiler.machine.ptx import write_ptx
    from delassus.compiler.targets.c.module import write_c
    from delassus.errors import ConfigurationError
    from delassus.quantities.pipeline import derivative_programs, make_program, without_estimate

    program = without_estimate(asked, make_program(asked))
    if ptx and casadi:
        raise ConfigurationError("--ptx", "no --casadi", f"--casadi {casadi}", "CasADi takes C: leave out one of them.")
    derivatives = derivative_programs(asked, casadi)
    for path in [write_ptx(program, out, scalar)] if ptx else write_c(program, out, scalar, derivatives):
        console.print(f"{path}", highlight=False)
    console.print(f"{program.count().total:,} operations a state")


@app.command()
def simulate(
    scene: SceneName,
    floor: Floor = False,
    keyframe: Keyframe = None,
    hold: Hold = None,
    control: Controls = None,
    root: SceneRoot = None,
    massless: MasslessChoice = MasslessOption.keep,
    links: Annotated[
        int | None, typer.Option(min=1, help="Links of the pendulum, or number of boxes, dominoes, parts …")
    ] = None,
    terrain: Annotated[str | None, typer.Option(help="Of mppi: flat (default) or steps, of 5 cm.")] = None,
    duration: Annotated[
        float | None, typer.Option("--duration", "--seconds", help="Time to simulate (s); the scene's own by default.")
    ] = None,
    dt: Annotated[float | None, typer.Option(help="Time step (s); the scene's own by default.")] = None,
    formulation: Annotated[str | None, typer.Option(help="blocks (default), os, nmc-os, rmc, mc or nmc.")] = None,
    solver: Annotated[
        str | None,
        typer.Option(help="newton (default, of blocks), lemke (default of the others), pgs, nsgs, admm or interior."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of random numbers, 0 by default.")] = None,
    view: Annotated[
        bool, typer.Option("--view", help="Show it in the browser, until Ctrl-C; needs the extra view.")
    ] = False,
    port: Port = 8080,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the figure into this .png file; needs the extra plot.")
    ] = None,
    video: Annotated[
        Path | None, typer.Option(help="Film it into this .mp4, .webp or .gif file; needs the extra video.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Write all samples to this file: .npz; .h5, .mcap and .rrd need extras.")
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Save the state at the end to this .npz or .h5 file.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on from the state in this file of --checkpoint.")] = None,
    file: Json = None,
    csv: Csv = None,
) -> None:
    """Simulate a scene with contacts: a ready-made one, or a robot of a file, under constant controls."""
    from delassus.cli.simulate import run

    of_scene = {"links": links, "terrain": terrain}
    options = {"dt": dt, "formulation": formulation, "solver": solver, "seed": seed}
    files = {"plot": plot, "video": video, "record": record, "checkpoint": checkpoint, "resume": resume,
             "json": file, "csv": csv}  # fmt: skip
    run(
        console,
        scene,
        {name: value for name, value in of_scene.items() if value is not None},
        _of_robot(floor, keyframe, hold, control, root, massless),
        duration,
        {name: value for name, value in options.items() if value is not None},
        {name: path for name, path in files.items() if path is not None},
        port if view else None,
    )


def _of_robot(
    floor: bool,
    keyframe: str | None,
    hold: bool | None,
    control: list[str] | None,
    root: RootOption | None,
    massless: MasslessOption,
) -> dict[str, object]:
    """What was said of a file or robot."""
    given = {"floor": floor, "keyframe": keyframe, "control": control, "root": root and root.value}
    given["massless"] = None if massless is MasslessOption.keep else massless.value
    held = {} if hold is None else {"hold": hold}
    return held | {name: value for name, value in given.items() if value}


@app.command()
def view(
    scene: SceneName,
    floor: Floor = False,
    keyframe: Keyframe = None,
    hold: Hold = None,
    control: Controls = None,
    root: SceneRoot = None,
    massless: MasslessChoice = MasslessOption.keep,
    recording: Annotated[
        Path | None, typer.Option(help="Play this file of simulate --record, of the same scene.")
    ] = None,
    port: Port = 8080,
) -> None:
    """Show a robot or scene at its start in the browser, until Ctrl-C; Play simulates it. Needs the extra view."""
    from delassus.cli.simulate import view

    view(console, scene, _of_robot(floor, keyframe, hold, control, root, massless), recording, port)


@app.command()
def audit(
    scene: Annotated[Path, typer.Argument(help="An MJCF file.")],
    seconds: Annotated[float, typer.Option(min=0.0, help="Time to simulate (s).")] = 2.0,
    tolerance: Annotated[float, typer.Option(help="Velocity (m/s) that violations are held to.")] = 1e-6,
    penetration: Annotated[float, typer.Option(help="Depth (m) that bodies may overlap.")] = 1e-4,
    plot: Annotated[Path | None, typer.Option(help="Draw it over time into this folder; needs the extra plot.")] = None,
    file: Json = None,
    csv: Csv = None,
) -> None:
    """Audit the contact steps that MuJoCo takes of a scene (extra mjcf): violations, and what softness explains."""
    from delassus.cli.audit import run

    run(console, scene, seconds, {"tolerance": tolerance, "penetration": penetration}, file, plot, csv)


@app.command()
def warmup() -> None:
    """Compile the loops of contact, once for each version, before a program needs them."""
    from delassus.cli.warmup import parts

    console.print(
        "Compiles the loops of contact for this version. (Kernels of robots are compiled when they are first called.)"
    )
    for name, seconds in parts():
        console.print(f"{name}: {seconds:.1f} s", highlight=False)


_stand_for("reproduce")
_stand_for("bench")
