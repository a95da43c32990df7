"""A spring and damper between two origins, along the line between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass

import numpy as np

from delassus.constraints.constraint import At, Constraint
from delassus.constraints.distance import Distance
from delassus.constraints.frame import Frame
from delassus.errors import ConstraintError, shown
from delassus.model.check import real_array
from delassus.model.kinematics import world_poses
from delassus.model.tree import WORLD, Tree
from delassus.spatial.ops import Matrix
from delassus.spatial.rotations import Array


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class SpringDamper(Distance):
    """A spring and damper between the origins of two frames: the force ``−k (‖r‖ − length) − d u`` along their line.

    It acts in steps with contacts, `Scene.attach` and ``"contact_step"``, implicitly: stiffness and damping may be as
    large as they are, at any time step. ``u`` is the velocity by which the origins part. Where they coincide there is
    no line between them, and results are NaN.

    Parameters
    ----------
    first, second : str or Frame
        The frames; ``Frame("world", position)`` is a place in the world.
    stiffness : float
        ``k`` in N/m, not negative.
    damping : float
        ``d`` in N s/m, not negative.
    length : float, optional
        Distance in m at which the spring exerts no force; by default that in a scene's start, or in the neutral
        configuration of a robot.

    Raises
    ------
    ConstraintError
        A frame that is neither a name nor a `Frame`; a number that is not finite, or negative; a ``length`` that is
        not positive.

    Examples
    --------
    >>> import delassus as ds
    >>> ball = ds.mechanisms.free_body(2.0, 0.01 * np.eye(3), name="ball")
    >>> spring = SpringDamper("ball", ds.Frame("world", (0, 0, 1)), stiffness=200.0, damping=40.0, length=0.9)
    >>> sim = ds.Simulator(ds.Scene(ball).attach(spring))
    >>> sim.run(3.0)
    >>> round(float(sim.q[2] - 0.1), 6), round(-2 * 9.81 / 200, 6)
    (-0.0981, -0.0981)
    """

    stiffness: float
    damping: float

    def __init__(
        self, first: str | Frame, second: str | Frame, stiffness: float, damping: float = 0.0, *,
        length: float | None = None,
    ) -> None:  # fmt: skip
        Distance.__init__(self, first, second, length=length)
        own = {"stiffness": (stiffness, "N/m"), "damping": (damping, "N s/m")}
        for name, (given, unit) in own.items():
            number = real_array(given)
            if number is None or number.shape != () or not 0.0 <= number < np.inf:
                wanted = f"a number in {unit}, not negative"
                raise ConstraintError(f"{name} of a spring", wanted, shown(given), "Zero is none.")
            self._set_attributes(**{name: float(number)})

    def __repr__(self) -> str:
        numbers = f"stiffness={self.stiffness:g}, damping={self.damping:g}"
        return f"{type(self).__name__}({', '.join(frame.text for frame in self.frames)}, {numbers})"

    def _defining(self) -> list[object]:
        return [*Distance._defining(self), self.stiffness, self.damping]

    @property
    def holds(self) -> bool:
        """It is a force, and holds nothing."""
        return False

    @property
    def is_loop(self) -> bool:
        """It is none."""
        return False

    def check(self, tree: Tree) -> None:
        """Refuse a robot that it does not fit: raises `UnknownNameError` or `ConstraintError`."""
        Distance.check(self, tree)
        if not self.carriers(tree):
            raise ConstraintError(repr(self), "a link that moves", "two places in the world", "Drop this spring.")

    def at_rest(self, tree: Tree, q: Array) -> SpringDamper:
        """The spring with a length, that at the configuration ``q`` (nq,) if it has none."""
        if self.length is not None:
            return self
        other = copy(self)
        other._set_attributes(length=self._distance(tree, q))
        return other

    def without(self, tree: Tree, other: Tree, values: Mapping[str, Array]) -> Constraint | None:
        """The spring with its length of ``tree``; None between two places of one rigid body."""
        return Distance.without(self.at_rest(tree, tree.neutral()), tree, other, values)

    def energy(self, tree: Tree, q: Array) -> float:
        """Energy (J) of the spring at a configuration (nq,)."""
        length = self.at_rest(tree, tree.neutral()).length
        assert length is not None
        return 0.5 * self.stiffness * (self._distance(tree, q) - length) ** 2

    def _distance(self, tree: Tree, q: Array) -> float:
        poses, ends = world_poses(tree, np.asarray(q, float)), list[Array]()
        for frame in self.frames:
            at = frame.on(tree)
            R, p = poses[at.link] if at.link != WORLD else (np.eye(3), np.zeros(3))
            ends.append(p + R @ at.position)
        return float(np.linalg.norm(ends[0] - ends[1]))

    def position(self, at: At) -> Matrix:
        """``‖r‖ − length``."""
        own = self.at_rest(at.tree, at.tree.neutral())
        return at.ops.matrix([[self.line(at)[1] - own.length]])

    def mobility(self, tree: Tree) -> float:
        """That of its ends along a line (1/kg), as if each carried what hangs on it and no more."""
        total = 0.0
        for link in self.carriers(tree):
            mass = sum(float(tree.inertias[i][0, 0]) for i in range(tree.n_links) if link in tree.support(i))
            total += 1.0 / mass if mass > 0.0 else 0.0
        return total


def springs_among(constraints: Iterable[Constraint]) -> dict[int, SpringDamper]:
    """Those that are springs, by their places."""
    return {k: c for k, c in enumerate(constraints) if isinstance(c, SpringDamper)}
