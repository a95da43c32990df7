"""`ReadyScene`: a scene, where it starts, what drives it, and for how long it is worth watching."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from delassus import Scene, Simulator
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
        From a simulator to joint forces (nv,). It depends on nothing but the simulator, so that runs resume exactly;
        that of `mppi` has a plan as well, which begins anew.
    duration : float
        How long (s) until everything has happened.
    description : str
        One sentence.
    check : callable or None
        From the simulator after ``duration`` to whether the scene did what it is there for, and what was measured, in
        words: ``(True, "30 of 30 dominoes have fallen")``.
    options : mapping of str to Any
        Those of the simulator, such as ``control="pd"``.
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


def urdf_link(name: str, mass: float, com: str, moments: Iterable[float]) -> str:
    """URDF of a link with moments of inertia (kg m²) about its centre of mass."""
    ixx, iyy, izz = moments
    return f"""<link name="{name}"><inertial><origin xyz="{com}"/><mass value="{mass}"/>
        <inertia ixx="{ixx}" iyy="{iyy}" izz="{izz}" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
