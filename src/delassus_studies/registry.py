"""Commands of this package: the registry of ``delassus bench``, a row a command; ``demo`` and ``reproduce``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from delassus.cli.tables import Console, Csv, Json, Record, check_folder, publish
from delassus.errors import ModelError
from delassus_studies.claims import PAPERS, chosen
from delassus_studies.claims import reproduce as judge
from delassus_studies.figures import stamp

app = typer.Typer()
"""What the command line loads by the entry point ``delassus.commands``."""
bench_app = typer.Typer(help="Benchmarks: operations and times, measured here.", no_args_is_help=True)
console = Console()

ROBOT_FILES = ("atlas_v4.urdf", "iiwa.urdf", "shadow_hand.xml")
"""Files of robots that some claims are about."""


def _robots(folder: Path | None) -> Path | None:
    """Refuse a folder that holds none of the files."""
    if folder is not None and not any((folder / name).is_file() for name in ROBOT_FILES):
        came = "a folder without any of them" if folder.is_dir() else "no folder"
        raise ModelError(f"--robots {str(folder)!r}", f"a folder with {', '.join(ROBOT_FILES)}", came,
                         "Leave it out: what needs them is not measured then.")  # fmt: skip
    return folder


# -- options -------------------------------------------------------------------------------------------------------


def _option(name: str, kind: Any, default: Any, *flags: str, **details: Any) -> Parameter:
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, typer.Option(*flags, **details)]
    )


def _flag(name: str, text: str) -> Parameter:
    return _option(name.replace("-", "_"), bool, False, f"--{name}", help=text)


PLOT = _option("plot", Path | None, None, "--plot", callback=check_folder,
               help="Draw figures (PNG) into this folder; needs the extra plot.")  # fmt: skip
FILES = (
    Parameter("file", Parameter.KEYWORD_ONLY, default=None, annotation=Json),
    Parameter("csv", Parameter.KEYWORD_ONLY, default=None, annotation=Csv),
)
QUICK = _flag("quick", "A small case only, timed once: to see what comes out.")
FOLDER = Parameter("folder", Parameter.POSITIONAL_OR_KEYWORD, annotation=Annotated[Path, typer.Argument(
    help="Folder with .dat, .dat.gz or .hdf5.")])  # fmt: skip
DATA = Parameter("data", Parameter.POSITIONAL_OR_KEYWORD, annotation=Annotated[Path, typer.Argument(
    metavar="FILE", help="Tosses (.npz) in the format of contact-nets.")])  # fmt: skip

ROBOTS = _option("robots", Path | None, None, callback=_robots, help="Folder with iiwa.urdf.")


def _largest(least: int, text: str) -> Parameter:
    return _option("largest", int | None, None, min=least, help=text)


# -- commands ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bench:
    """A benchmark: a module of `bench` with `measure`, `tables`, and `draw` where it has figures.

    Its options, and what is ``given``, are those of `measure`. ``takes``: how long that is. ``module``: where it has
    not the name. One that compares results has `holds`, of its record: where they do not, the command ends with
    status 1.
    """

    name: str
    takes: str
    help: str
    options: tuple[Parameter, ...] = (QUICK,)
    module: str = ""
    given: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, file: Path | None, csv: Path | None, plot: Path | None = None, **options: Any) -> None:
        """Measure, and print, write and draw what is found."""
        module = import_module(f"delassus_studies.bench.{self.module or self.name.replace('-', '.')}")
        takes = "less than a minute" if options.get("quick") else self.takes

        def draw(record: Record, folder: Path) -> Path:
            command = f"delassus bench {self.name}{' FILE' * ('data' in options)} --plot FOLDER"
            command += " --quick" * options.get("quick", False)
            return stamp(module.draw(record, folder), command, record, str(module.__file__))

        record = publish(console, module.measure(**options, **self.given), module.tables, file, plot, draw, csv, takes)
        if hasattr(module, "holds") and not module.holds(record):
            raise typer.Exit(1)


BENCHES = (
    Bench("osim", "half a minute", "Count operations and time NumPy, per state, of every method on the benchmark "
          "robots, beside Pinocchio.", (PLOT, QUICK, _option("states", int, 512, help="States in a batch."))),
    Bench("direct", "two minutes", "Time direct calls with many states, beside compiled kernels.",
          (QUICK, _option("states", int, 100_000, help="States in a batch."))),
    Bench("speed", "about two minutes", "Time compiled kernels on the benchmark robots, beside Pinocchio, CasADi's C "
          "code and frax in the same run."),
    Bench("dynamics", "some minutes", "Time compiled constrained dynamics and its derivatives, beside Pinocchio and "
          "MuJoCo in the same run.", (_flag("phases", "Count operations by phase instead."), QUICK)),
    Bench("derivatives", "some minutes", "Time derivatives of inverse dynamics, frames and momentum, and compare them "
          "with differences in extended precision, beside Pinocchio in the same run."),
    Bench("loops", "some minutes", "Count and time constrained dynamics of mechanisms with up to 100 loops, beside "
          "Pinocchio's lcaba."),
    Bench("arrays", "half a minute, with --dask a minute", "Time calls with arrays of JAX and PyTorch, and their "
          "gradients, beside pure_callback and frax.",
          (_flag("dask", "Blocks on one worker process and on two instead."), QUICK)),
    Bench("gpu", "some minutes", "Compare kernels on a GPU with the processor, and time them beside mujoco_warp, MJX, "
          "frax and grid-rbd; without one, assemble them, and predict their speed.",
          (_flag("check", "Compare alone, and every quantity: status 1 if one differs."), QUICK,
           _option("states", int, 1 << 20, min=1, help="States in a batch.")), module="gpu.command"),
    Bench("scaling", "some minutes", "Count and time compiled kernels against the number of links and of rows, with "
          "fitted slopes.", (PLOT, _largest(20, "No more links, and no more rows, than this."))),
    Bench("compile", "some minutes", "Time cold compilations against the length of the program, stage by stage.",
          (PLOT, _largest(50, "No longer chains than this."))),
    Bench("peak", "about two minutes", "Measure the fraction of this core's peak that kernels reach, and what bounds "
          "the rest."),
    Bench("errors", "some minutes", "Compare the true errors of dynamics kernels with their estimates, near and far "
          "from singular states.", (PLOT, QUICK)),
    Bench("contact", "ten minutes", "Time a step of pendulums, grasps, planks hit by a ball and piles, the worst one, "
          "too, beside MuJoCo.", module="contact.scenes", given={"which": "contact"}),
    Bench("contact-steps", "some minutes", "Residual of compiled contact steps against their cost, on Go1 and Talos, "
          "beside MuJoCo in the same run.", (PLOT, QUICK)),
    Bench("contact-derivatives", "two minutes", "Time tangents and cotangents of compiled contact steps, beside "
          "MuJoCo's differences in the same run.", (QUICK, _flag("check", "In place of times, compare derivatives "
          "of eleven robots with differences in extended precision: an hour."))),
    Bench("contact-solvers", "some minutes", "Time contact solvers on random problems, and count what they miss, "
          "beside Siconos in the same run.",
          (_option("random", int, 10_000, help="Random problems of bodies."), QUICK)),
    Bench("contact-problems", "a quarter of an hour", "Judge compiled contact steps of random mechanisms anew in "
          "float64.",
          (_option("mechanisms", int, 25, help="Random mechanisms."),
           _option("states", int, 400, help="States of each."), QUICK)),
    Bench("problems", "some minutes", "Solve the contact problems of a folder, files of Siconos and FCLIB, beside "
          "Siconos in the same run.", (FOLDER, QUICK), module="contact.corpus"),
    Bench("tosses", "some minutes", "Simulate measured tosses of a cube from their first states, beside MuJoCo in the "
          "same run.", (DATA, PLOT, QUICK), module="contact.tosses"),
    Bench("identification", "some minutes", "Estimate all inertias of an arm and of a quadruped in flight, beside "
          "mujoco.sysid in the same run.", (ROBOTS, QUICK)),
    Bench("piles", "five to ten minutes", "Time steps of heaps, piles, stacks and a standing quadruped, beside "
          "MuJoCo.", module="contact.scenes", given={"which": "piles"}),
    Bench("terrain", "a minute", "Time steps of bodies and a quadruped on rough ground, beside MuJoCo.",
          module="contact.scenes", given={"which": "terrain"}),
)  # fmt: skip


TOPICS = {
    "osim": ("osim",),
    "dynamics": ("dynamics_times", "dynamics"),
    "loops": ("loops",),
    "contact": ("contact", "contact_simulations"),
    "mechanisms": ("iftomm",),
}
"""Claims on Delassus algorithms, constrained dynamics, loops, contact, simulated mechanisms: modules in `claims`."""


@app.command()
def demo(file: Json = None, csv: Csv = None) -> None:
    """Run every method on a real robot and check each against an independent oracle."""
    from delassus_studies.demo import run

    if not run(console, file, csv):
        raise typer.Exit(1)


@app.command(epilog=escape("; ".join(f"{name} {paper}" for name, paper in PAPERS.items())))
def reproduce(
    claim: Annotated[
        str,
        typer.Argument(
            help="all; osim, dynamics, loops, contact or mechanisms; a paper, such as LQR or IFToMM; or one claim: "
            "'LQR Fig. 4a'."
        ),
    ] = "all",
    *,
    robots: Annotated[
        Path | None,
        typer.Option(
            callback=_robots,
            help="Folder with atlas_v4.urdf, iiwa.urdf and shadow_hand.xml; claims whose file is not there are not "
            "measured. This package has none of them: such models are atlas_v4_description of robot_descriptions, "
            "kuka_iiwa/model.urdf of pybullet_data, and the hand of adroit_hand in gymnasium_robotics.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            callback=check_folder,
            help="Measure as published and as it is here, and draw both side by side (PNG) into this folder; needs "
            "the extra plot.",
        ),
    ] = None,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="Count and assemble as the papers do, where that differs.")
    ] = False,
    file: Json = None,
    csv: Csv = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One point of each claim, which is not judged: seconds, not minutes.")
    ] = False,
) -> None:
    """Measure the claims of the papers, and judge them one by one."""
    found = {
        topic: [each for name in modules for each in import_module(f"delassus_studies.claims.{name}").CLAIMS]
        for topic, modules in TOPICS.items()
    }
    judge(console, chosen(found, claim), robots, plot, file, quick, csv, as_published)


def _register(app: typer.Typer, row: Bench) -> None:
    def run(**given: Any) -> None:
        row(**given)

    command: Any = run
    command.__signature__ = Signature([*row.options[:-1], *FILES, row.options[-1]])
    app.command(row.name, help=row.help)(command)


for _bench in BENCHES:
    _register(bench_app, _bench)

app.add_typer(bench_app, name="bench")
