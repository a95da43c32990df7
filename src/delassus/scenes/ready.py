"""`ReadyScene`: a scene, where it starts, what drives it, and for how long it is worth watching."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from delassus import Scene, Simulator
from delassus.contact import Box, Cylinder, Sphere
from delassus.simulate.simulator import Controller
from delassus.spatial.rotations import Array

Check = Callable[[Simulator], tuple[bool, str]]
"""From the simulator at the end of a run to whether a scene did what it is there for, and what was measured."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadyScene:
    """Everything that a simulation needs.

    Attributes
    ----------
    name : str
    scene : Scene
    q0, v0 : (nq,) and (nv,) arrays
        State at the start.
    dt : float
        Time step (s).
    controller : callable or None
        From a simulator to what its steps take: joint forces (nv,), unless ``options`` say otherwise. It depends on
        nothing but the simulator, so that runs resume exactly; that of `mppi` has a plan as well, which begins anew.
    duration : float
        How long (s) until everything has happened.
    description : str
        One sentence.
    check : callable or None
        From the simulator after ``duration`` to whether the scene did what it is there for, and what was measured, in
        words: ``(True, "30 of 30 dominoes have fallen")``.
    options : mapping of str to Any
        More options of its `Simulator`: with ``control="pd"`` and gains the controller gives target configurations.
    """

    name: str
    scene: Scene
    q0: Array
    v0: Array
    dt: float
    controller: Controller | None
    duration: float
    description: str
    check: Check | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def simulator(self, **options: Any) -> Simulator:
        """Simulator at the start; ``options`` are those of `Simulator`, such as ``formulation="nmc-os"``."""
        return Simulator(self.scene, **{"q0": self.q0, "v0": self.v0, "dt": self.dt, **self.options, **options})


def urdf_link(
    name: str, mass: float, com: str, moments: Iterable[float], turned: str = "0 0 0", shapes: str = ""
) -> str:
    """URDF of a link with moments of inertia (kg m²) about its centre of mass, along axes that are ``turned``."""
    ixx, iyy, izz = moments
    return f"""<link name="{name}"><inertial><origin xyz="{com}" rpy="{turned}"/><mass value="{mass}"/>
        <inertia ixx="{ixx}" iyy="{iyy}" izz="{izz}" ixy="0" ixz="0" iyz="0"/></inertial>{shapes}</link>"""


SHAPES = {"box": (Box, "size"), "cylinder": (Cylinder, "radius length"), "sphere": (Sphere, "radius")}
"""Shapes of machines, and attributes that their sizes have in URDF."""


def urdf_of(name: str, table: str) -> str:
    """URDF of a machine of simple shapes.

    Parameters
    ----------
    name : str
        Of the machine.
    table : str
        One line for each link, of seven fields with ``|`` between them, in SI units:

        - its name, and that of its parent: ``world``, or none for the root;
        - its joint: kind, axis, limits, damping and friction, such as ``revolute z -1 1 0.1 0.5``; the last may be left
          out;
        - position of the joint in the frame of the parent, and roll, pitch and yaw of its axes, zero by default;
        - shape: ``box x y z``, ``cylinder radius length`` or ``sphere radius``; nothing touches one that is ``seen``;
        - centre of the shape in the frame of the link, and roll, pitch and yaw of its axes, zero by default;
        - mass, of which the shape is full;
        - colour: red, green and blue, from 0 to 1.

    Examples
    --------
    >>> import delassus as ds
    >>> lever = urdf_of("lever", "rod world | revolute y -1 1 | 0 0 1 | box 0.5 0.1 0.1 | 0.25 0 0 | 2 | 1 0.5 0")
    >>> ds.load(lever).mass, len(ds.contact.load_colliders(lever, ds.load(lever)))
    (2.0, 1)
    """
    text = ""
    for row in table.strip().splitlines():
        links, joint, place, shape, centre, mass, colour = (field.split() for field in row.split("|"))
        kind, *sizes = shape[shape[0] == "seen" :]
        solid, attribute = SHAPES[kind]
        sized = zip(attribute.split(), [" ".join(sizes)] if kind == "box" else sizes, strict=True)
        form = "".join(f' {key}="{value}"' for key, value in sized)
        at, turned = _pose(centre)
        body = f'<origin xyz="{at}" rpy="{turned}"/><geometry><{kind}{form}/></geometry>'
        shapes = f'<visual>{body}<material name=""><color rgba="{" ".join(colour)} 1"/></material></visual>'
        shapes += f"<collision>{body}</collision>" if shape[0] != "seen" else ""
        moments = solid(*map(float, sizes)).inertia(float(mass[0]))
        text += urdf_link(links[0], float(mass[0]), at, moments, turned, shapes)
        if len(links) > 1:
            position, rotation = _pose(place)
            moves, axis, low, high, damping, friction = (*joint, *("x", "", "", "0", "0")[len(joint) - 1 :])
            limit = f'<limit lower="{low}" upper="{high}" effort="1e4" velocity="1e4"/>' if low else ""
            text += f"""<joint name="{links[0]}" type="{moves}"><parent link="{links[1]}"/><child link="{links[0]}"/>
                <origin xyz="{position}" rpy="{rotation}"/><axis xyz="{" ".join(str(int(a == axis)) for a in "xyz")}"/>
                {limit}<dynamics damping="{damping}" friction="{friction}"/></joint>"""
    return f'<robot name="{name}">{text}</robot>'


def _pose(fields: list[str]) -> tuple[str, str]:
    """Position and angles of a pose whose angles may be missing."""
    return " ".join(fields[:3]), " ".join(fields[3:]) or "0 0 0"
