"""State of a scene: where it is, how it moves, what drives it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from delassus.model.check import finite_array
from delassus.model.rotations import Array
from delassus.model.tree import Tree


@dataclass(frozen=True, slots=True, init=False, eq=False)
class State:
    """One state of a scene.

    Parameters
    ----------
    q : (nq,) array_like
        Configuration, in the order of the scene's tree.
    v : (nv,) array_like
        Velocity of joints (m/s, rad/s).
    tau : (nv,) array_like, optional
        Forces of motors on joints (N, N m); none by default.

    Raises
    ------
    ConfigurationError
        Not one state of real, finite numbers. Sizes are checked against a scene's tree by `on`.

    Examples
    --------
    >>> State([0.1, 0.2], [1, 0]).tau.tolist()
    [0.0, 0.0]
    """

    q: Array
    v: Array
    tau: Array

    def __init__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike | None = None) -> None:
        velocity = _vector(v, "v")
        force = np.zeros(velocity.size) if tau is None else _vector(tau, "tau")
        for name, array in (("q", _vector(q, "q")), ("v", velocity), ("tau", force)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def on(self, tree: Tree) -> State:
        """The same state, its sizes checked against a tree's, with quaternions of unit length.

        Raises
        ------
        ConfigurationError
            Wrong sizes, or quaternions that are far from unit length.
        """
        q, v = tree.check_configuration(self.q), tree.check_velocity(self.v)
        return State(q, v, tree.check_velocity(self.tau, "tau"))


def _vector(value: ArrayLike, name: str) -> Array:
    return finite_array(value, (-1,), name, "Contact problems are of one state.")
