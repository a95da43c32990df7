"""``delassus robots`` and ``delassus info``: robots by name, and what a robot is made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
from rich.table import Table

from delassus.cli.tables import Console, show, table, write_csv, write_json
from delassus.constraints import Sensor
from delassus.errors import missing_dependency
from delassus.formats.names import KnownRobot, known_robots
from delassus.model.description import MOST_NAMED
from delassus.model.tree import Tree

PASSIVE = "stiffness", "rest_position", "damping", "friction", "armature"
"""Attributes of joints that resist motion."""

WORDS = 34
"""Width of columns of words: two of them and a number are 80 wide."""

LICENCE = 24
"""Width of a column of licences, some of which are sentences."""

LIMITS = "lower", "upper", "effort_limit", "velocity_limit"
"""Attributes of joints that limit something."""


def list_robots(console: Console, words: Sequence[str], here: bool, file: Path | None, csv: Path | None) -> None:
    """Print robots that have all words, or write them to files; those whose files are ``here`` if asked for."""
    known, wanted = known_robots(), [word.casefold() for word in words]
    if not known:
        raise missing_dependency("example-robot-data", "robots", "names of robots")
    found = [
        robot for robot in known
        if (robot.is_here or not here) and all(word in " ".join(map(str, robot)).casefold() for word in wanted)
    ]  # fmt: skip
    made = _tables_of_robots(found)
    for one in made:
        show(console, one)
    if found:
        console.print("base: of a URDF file, unless root says. here: no, files are fetched at first.", style="dim")
    console.print(f"{len(found)} robots", highlight=False)
    if file is not None:
        write_json(file, [robot._asdict() for robot in found])
    if csv is not None:
        write_csv(csv, made)


def show_robot(console: Console, tree: Tree, frames: bool, file: Path | None, csv: Path | None) -> None:
    """Print what a robot is made of, or write it to files; with all names of frames if asked for."""
    console.print(
        console.render_str(f"{tree.name}:", style="bold"),
        f"{tree.n_links} moving links, {base_of(tree)}, nq = {tree.nq}, nv = {tree.nv}, depth {tree.depth}, "
        f"mass {tree.mass:.4g} kg, {len(tree.frames)} frames",
    )
    rows = []
    for i, joint in enumerate(tree.joints):
        spans = [f"{s.start}" if s.stop == s.start + 1 else f"{s.start}–{s.stop - 1}"
                 for s in (tree.q_slices[i], tree.v_slices[i])]  # fmt: skip
        parent = str(tree.parents[i]) if tree.parents[i] >= 0 else "–"
        mass = f"{tree.inertias[i][0, 0]:.3g}"
        rows.append((str(i), joint.name, joint.kind.name, *spans, parent, mass, tree.link_names[i]))
    made = table("", ("#", "joint", "kind", "q", "v", "on", "kg", "link"), rows, text=("joint", "kind", "link"))
    show(console, made)
    console.print("on: # of the link that a joint is on; – is the world. kg: mass of its link.", style="dim")
    parts = _parts_of(tree)
    for part in parts:
        show(console, part)
    if frames:
        on = {name: tree.link_names[at.link] if at.link >= 0 else "(world)" for name, at in tree.frames.items()}
        show(console, names := table("", ("frame", "on link"), list(on.items()), text=("on link",)))
    if file is not None:
        links = [{"joint": j.name, "kind": j.kind.name, "q": [q.start, q.stop], "v": [v.start, v.stop], "parent": p,
                  "link": link, "mass": float(inertia[0, 0])}
                 for j, q, v, p, link, inertia in zip(tree.joints, tree.q_slices, tree.v_slices, tree.parents,
                                                      tree.link_names, tree.inertias, strict=True)]  # fmt: skip
        told = {"name": tree.name, "base": base_of(tree), "mass": tree.mass, "nq": tree.nq, "nv": tree.nv,
                "links": links, "frames": list(tree.frames), "constraints": [*map(repr, tree.constraints)],
                "report": tree.report}  # fmt: skip
        told |= {
            "limits": {j.name: {name: list(map(finite, getattr(j, name))) for name in LIMITS} for j in tree.joints},
            "springs": {j.name: {name: getattr(j, name).tolist() for name in PASSIVE} for j in tree.joints},
            "actuators": [{"name": a.name, "transmission": dict(a.transmission), "gain": a.gain, "bias": a.bias,
                           "control_range": [*map(finite, a.control_range)],
                           "force_range": [*map(finite, a.force_range)]} for a in tree.actuators],
            "sensors": [{"name": x.name, "kind": x.kind, "of": link_of(x)} for x in tree.sensors],
            "keyframes": {name: {key: getattr(x, key).tolist() for key in ("q", "v", "ctrl", "act")}
                          for name, x in tree.keyframes.items()},
        }  # fmt: skip
        write_json(file, told)
    if csv is not None:
        write_csv(csv, [made, *parts, names] if frames else [made, *parts])


def finite(limit: float) -> float | None:
    """A number for JSON: none where nothing is limited."""
    return float(limit) if np.isfinite(limit) else None


def link_of(sensor: Sensor) -> str:
    """Name of what a sensor is of: a joint, an actuator, or a link or frame."""
    return sensor.of if isinstance(sensor.of, str) else sensor.of.link


def _parts_of(tree: Tree) -> list[Table]:
    """Tables of a robot's limits, springs, actuators, sensors, keyframes and loops, and of what does not act.

    Those that it has.
    """
    limits = [
        (joint.name, *(interval(low, high) for low, high in zip(joint.lower, joint.upper, strict=True)),
         *(f"{limit[0]:.4g}" if np.isfinite(limit[0]) else "–" for limit in (joint.effort_limit, joint.velocity_limit)))
        for joint in tree.joints
        if joint.nv == 1 and np.isfinite([getattr(joint, name) for name in LIMITS]).any()
    ]  # fmt: skip
    actuators = [
        (a.name, " + ".join(f"{x:.4g} {joint}" for joint, x in a.transmission.items()),
         *(" ".join(f"{x:.4g}" for x in law) for law in (a.gain, a.bias)),
         interval(*a.control_range), interval(*a.force_range))
        for a in tree.actuators
    ]  # fmt: skip
    sensors = [(s.name, s.kind, link_of(s), s.size(tree)) for s in tree.sensors]
    keyframes = [
        (name, *("yes" if x.any() else "–" for x in (k.v, k.ctrl, k.act))) for name, k in tree.keyframes.items()
    ]
    resisting = ((joint.name, [getattr(joint, name) for name in PASSIVE]) for joint in tree.joints)
    springs = [
        (name, *(" ".join(f"{x:.4g}" for x in own) if own.any() else "–" for own in parts))
        for name, parts in resisting
        if any(own.any() for own in parts)
    ]
    loops = [(type(c).__name__, ", ".join(c.joints or [frame.link for frame in c.frames]), c.size)
             for c in tree.constraints]  # fmt: skip
    report = [
        (fill(what, WORDS), len(names), fill(", ".join(names[:MOST_NAMED]) + ", …" * (len(names) > MOST_NAMED), WORDS))
        for what, names in tree.report.items()
    ]
    made = (
        ("limits", ("joint", "range (rad or m)", "effort (N m or N)", "speed (rad/s or m/s)"), limits),
        ("springs and resistance of joints", ("joint", *(x.replace("_", " ") for x in PASSIVE)), springs),
        ("actuators", ("name", "length", "gain", "bias", "controls", "forces (N m or N)"), actuators),
        ("sensors", ("name", "kind", "of", "numbers"), sensors),
        ("keyframes", ("name", "velocities", "controls", "activations"), keyframes),
        ("loops, couplings and springs between links", ("kind", "of", "rows"), loops),
        ("what does not act, or in simulations only", ("what", "how many", "such as"), report),
    )
    return [
        table(title, heads, rows, text=(heads[1:-1], ("such as",))[heads[0] == "what"])
        for title, heads, rows in made
        if rows
    ]


def _tables_of_robots(robots: Sequence[KnownRobot]) -> list[Table]:
    """Tables of robots by name, one for each package."""
    of_package: dict[str, list[tuple[str | None, ...]]] = {}
    for x in robots:
        here, licence = "yes" if x.is_here else "no", None if x.licence is None else fill(x.licence, LICENCE)
        of_package.setdefault(x.package, []).append((", ".join((x.name, *x.others)), x.root, x.form, here, licence))
    heads = "name", "base", "format", "here", "licence"
    return [table(package, heads, rows, text=heads) for package, rows in of_package.items()]


def interval(low: float, high: float) -> str:
    """Text of a range; a dash where nothing is limited."""
    return f"{low:.4g} … {high:.4g}" if np.isfinite([low, high]).any() else "–"


def base_of(tree: Tree) -> str:
    """What carries the root of a robot, in words."""
    return "floating base" if tree.is_floating else "fixed base"
