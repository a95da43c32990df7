"""A quadruped that stands and then trots: Unitree's Go1, or a generic one where that is not installed."""

from __future__ import annotations

import warnings

import numpy as np

from delassus import Scene, Tree, load
from delassus.contact import Box, Collider, HalfSpace, Sphere
from delassus.errors import DelassusWarning, MissingDependencyError
from delassus.scenes.ready import ReadyScene, urdf_link
from delassus.scenes.trot import LEGS, Trot

FOOT_RADIUS = 0.02
"""Radius of the feet (m)."""

FRICTION = 0.8
"""Friction of the feet on the floor."""

HEIGHT = 0.3
"""Height of the hips above the feet (m)."""

TRUNK = (0.36, 0.1, 0.11)
"""Edges of the trunk (m)."""


def quadruped(*, generic: bool = False, goal: float | None = None) -> ReadyScene:
    """Quadruped on a floor: it stands for half a second, then trots on the spot, or ahead.

    Parameters
    ----------
    generic : bool
        Take the built-in quadruped even where Go1's description (extra ``[robots]``) is installed. Its links have the
        names of Go1's.
    goal : float, optional
        How far it walks along x (m).

    Examples
    --------
    >>> ready = quadruped(generic=True)
    >>> ready.scene.tree.n_links, ready.scene.tree.nv
    (13, 18)
    """
    scene = on_floor(generic_quadruped() if generic else go1())
    tree = scene.tree
    controller = Trot(tree, scene.gravity, HEIGHT, goal)
    q0 = tree.neutral()
    q0[7:] = controller.stance
    q0[2] = HEIGHT + FOOT_RADIUS
    where = "on the spot" if goal is None else f"{goal:g} m ahead"
    told = f"{tree.name} stands, and then trots {where}"
    return ReadyScene("quadruped", scene, q0, np.zeros(tree.nv), 1e-3, controller, 3.0, told)


def on_floor(tree: Tree, *obstacles: Collider) -> Scene:
    """Scene of a quadruped, whose feet and trunk have colliders, on a floor."""
    feet = [Collider(f"{leg}_foot", Sphere(FOOT_RADIUS), friction=FRICTION) for leg in LEGS]
    trunk = Collider("trunk", Box(*TRUNK), friction=FRICTION)
    floor = Collider("world", HalfSpace(), friction=FRICTION, name="floor")
    return Scene(tree, [*feet, trunk, *obstacles, floor], descriptions="go1" if tree.name == "go1" else None)


def go1() -> Tree:
    """Go1 by its description, or the generic quadruped where that is not installed."""
    try:
        with warnings.catch_warnings():
            # One inertia of the description breaks the triangle inequality by a little; it does not matter here.
            warnings.simplefilter("ignore", DelassusWarning)
            return load("go1", root="floating")
    except MissingDependencyError:
        return generic_quadruped()


def generic_quadruped() -> Tree:
    """Quadruped of 12 kg: a trunk with four legs of three joints, named as those of Unitree's robots are."""
    x, y, side, rod, trunk = 0.19, 0.05, 0.08, 0.21, np.array([*TRUNK])
    parts = urdf_link("trunk", 6.0, "0 0 0", 6.0 / 12 * (trunk @ trunk - trunk**2))
    for leg in LEGS:
        ahead, left = (1.0 if leg[0] == "F" else -1.0), (1.0 if leg[1] == "L" else -1.0)
        hip, thigh, calf, foot = (f"{leg}_{part}" for part in ("hip", "thigh", "calf", "foot"))
        for parent, name, mass, com, at, axis, joint in (
            ("trunk", hip, 0.5, f"0 {0.5 * side * left} 0", f"{x * ahead} {y * left} 0", "1 0 0", "continuous"),
            (hip, thigh, 0.8, f"0 0 {-rod / 4}", f"0 {side * left} 0", "0 1 0", "continuous"),
            (thigh, calf, 0.15, f"0 0 {-rod / 2}", f"0 0 {-rod}", "0 1 0", "continuous"),
            (calf, foot, 0.05, "0 0 0", f"0 0 {-rod}", "0 1 0", "fixed"),
        ):
            across = mass * (0.04**2 + (rod**2 / 12 if name in (thigh, calf) else 0.0))
            parts += urdf_link(name, mass, com, (across, across, mass * 0.04**2))
            parts += f"""<joint name="{name}_{"fixed" if name == foot else "joint"}" type="{joint}">
                <parent link="{parent}"/><child link="{name}"/><origin xyz="{at}"/><axis xyz="{axis}"/>
                <dynamics damping="0.01"/></joint>"""
    return load(f'<robot name="quadruped">{parts}</robot>', root="floating")
