"""Keyframes: states of a robot that its description names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from delassus.errors import UnknownNameError, shown, unknown_name
from delassus.frozen import ByContent
from delassus.spatial.rotations import Array

T = TypeVar("T")


class Named(dict[str, T]):
    """Keyframes or their configurations by name, whose error for a name that there is not says which there are."""

    def __missing__(self, name: str) -> T:
        if self:
            raise unknown_name("keyframe", name, self)
        advice = "Keyframes of MJCF, and states of an SRDF file (beside a URDF file, or load's srdf=), are some."
        raise UnknownNameError("keyframe", "one that the description has", shown(name), advice)


@dataclass(frozen=True, slots=True, eq=False)
class Keyframe(ByContent):
    """A state that a description names: a keyframe of MJCF, or a configuration of SRDF or of a Pinocchio model.

    Attributes
    ----------
    q : (nq,) array
        Configuration.
    v : (nv,) array
        Velocity; zero by default.
    ctrl : (nu,) array
        Controls of the tree's actuators; zero by default, and in trees that are given other actuators.
    act : (na,) array
        Activations as the file has them. No actuator of a tree has a state, so that none acts.
    mocap : (7 k,) array
        Positions and quaternions x y z w of MJCF's ``mocap`` bodies, which scenes move; empty: as the file places them.
    """

    q: Array
    v: Array = field(default_factory=lambda: np.zeros(0))
    ctrl: Array = field(default_factory=lambda: np.zeros(0))
    act: Array = field(default_factory=lambda: np.zeros(0))
    mocap: Array = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self._make_read_only("q", "v", "ctrl", "act", "mocap")

    def fitted(self, nv: int, nu: int) -> Keyframe:
        """The keyframe in a tree of these sizes: velocities and controls of another size become zero."""
        v, ctrl = (x if x.shape == (n,) else np.zeros(n) for x, n in ((self.v, nv), (self.ctrl, nu)))
        return Keyframe(self.q, v, ctrl, self.act, self.mocap)
