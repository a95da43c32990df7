"""Scenes of the gallery: each shows what it is there for, in few lines of public names, and has its picture."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import delassus as ds
from delassus import scenes
from delassus.scenes import SCENES
from internals import cli

ROOT = Path(__file__).parent.parent
FILES = sorted(path for path in Path(scenes.__file__).parent.glob("*/*.py") if path.name != "__init__.py")
OF_THE_GALLERY = [name for name, make in SCENES.items() if make.__module__.count(".") > 2]
"""Those in folders of the scenes: one file each."""

SMALLER = {
    "dominoes": {"n": 12},
    "rope-bridge": {"n": 8},
    "card-house": {"n": 3},
    "bin": {"n": 40},
    "conveyor": {"n": 2},
}
"""Options of scenes that show the same with less."""

pytestmark = pytest.mark.usefixtures("one_lane")


@pytest.mark.parametrize("name", OF_THE_GALLERY)
def test_a_scene_shows_what_it_is_there_for(name):
    ready = SCENES[name](**SMALLER.get(name, {}))
    sim = ready.simulator()
    assert ready.name == name and ready.check is not None
    sim.run(ready.duration, ready.controller)  # warns of steps that are not solved
    holds, measured = ready.check(sim)
    assert holds, measured


@pytest.mark.parametrize(
    ("name", "material", "seconds"),
    [
        ("newtons-cradle", {"restitution": 0.9}, None),
        ("card-house", {"friction": 0.2}, 0.2),
        ("gripper", {"friction": 0.05}, None),
        *((name, {"friction": 0.5}, 0.1) for name in ("dominoes", "rope-bridge", "bin", "conveyor")),
        *((name, {"friction": 0.5}, 0.1) for name in ("tiles", "door", "car", "delta", "humanoid")),
    ],
)
def test_a_check_sees_what_does_not_hold(name, material, seconds):
    """Balls that lose energy, cards and fingers without hold, and what is not yet there."""
    ready = SCENES[name](**SMALLER.get(name, {}))
    sim = ds.Simulator(ready.scene.with_material(**material), q0=ready.q0, v0=ready.v0, dt=ready.dt, **ready.options)
    sim.run(seconds or ready.duration, ready.controller)
    assert not ready.check(sim)[0]


def test_a_run_of_a_scene_ends_with_what_it_showed():
    arguments = ["simulate", "dominoes", "--links", "2"]
    told = [CliRunner().invoke(cli.app, [*arguments, *more]).output for more in ([], ["--duration", "0.01"])]
    assert ["2 of 2 dominoes have fallen: holds" in text for text in told] == [True, False]


def named(tree):
    """Dotted names in a file, with modules for the names that they were imported as."""
    aliases, found = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    texts = (ast.unparse(node).split(".") for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    found |= {".".join([aliases[first], *rest]) for first, *rest in texts if first in aliases}
    return {name for name in found if name.replace(".", "").replace("_", "").isalnum()}  # no calls


def is_public(name):
    """Whether a name of the package, such as ``delassus.contact.Box``, is listed by the module that has it."""
    module, rest = ds, name.split(".")[1:]
    while rest:
        first, *rest = rest
        if first not in getattr(module, "__all__", [first]):
            return False
        module = getattr(module, first)
    return True


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scene_is_a_short_file_of_public_names(path):
    """Its code shows what a user would write: beside the package itself it takes public names of scenes alone."""
    assert len(path.read_text().splitlines()) <= 60
    ours = {name for name in named(ast.parse(path.read_text())) if name.startswith("delassus.")}
    # The package of scenes is not there yet when it imports them: they name the file that a public name comes from.
    public = (getattr(scenes, name) for name in scenes.__all__ if not name.isupper())
    ours -= {f"{what.__module__}.{what.__name__}" for what in public}
    assert ours and [name for name in sorted(ours) if not is_public(name)] == []


def test_the_command_line_lists_all_scenes():
    told = CliRunner().invoke(cli.app, ["simulate", "--help"], terminal_width=500).output
    assert [name for name in SCENES if name not in told] == []


def test_the_gallery_shows_what_scenes_say_of_themselves():
    page = (ROOT / "docs" / "gallery.md").read_text("utf-8")
    names = re.findall(r"^`delassus simulate ([\w-]+)`; ", page, re.MULTILINE)
    for name in names:
        told = SCENES[name]().description
        assert f"\n{told[0].upper()}{told[1:]}.\n\n![{told}]" in page, name
        assert (ROOT / "benchmarks" / "figures" / "gallery" / f"{name}.webp").stat().st_size < 60_000
    assert len(names) == page.count("\n## ") > 5
