"""What a task is traced on: a robot, its constraints and options, and CasADi symbols for everything that is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import casadi as ca

from delassus.algorithms.dynamics.state import DynamicsProblem, Goal
from delassus.algorithms.inputs import inputs_of
from delassus.algorithms.problem import Problem
from delassus.compiler.options import Setting, pose_name, target_name, wrench_name
from delassus.compiler.program import Argument
from delassus.constraints import Constraint
from delassus.model.inertia import motion_transform
from delassus.model.tree import WORLD, Tree
from delassus.spatial.casadi_ops import CasadiOps
from delassus.spatial.motion import from_entries
from delassus.spatial.ops import Matrix, Scalar
from delassus.spatial.transform import quaternion_rows

_STATES = {
    "q": "configuration: angles in rad, lengths in m, quaternions x y z w",
    "v": "velocity in rad/s and m/s, that of a free joint in its link's frame",
    "tau": "joint forces in N m and N",
    "qdd": "joint accelerations in rad/s^2 and m/s^2",
    "dt": "time step in s",
    "shift": "displacement in rad and m, that of a free joint in its link's frame",
}


def arguments_of(
    tree: Tree,
    constraints: Sequence[Constraint],
    states: Sequence[str],
    payloads: Sequence[str],
    setting: Setting,
) -> tuple[Argument, ...]:
    """All arguments: the state, then what constraints, payloads and options bring."""
    shapes = {"q": (tree.nq,), "dt": ()}
    out = [Argument(name, shapes.get(name, (tree.nv,)), _STATES[name]) for name in states]
    out.extend(Argument(i.name, i.shape, i.meaning) for i in inputs_of(constraints, payloads))
    return (*out, *setting.arguments(tree, constraints))


class Setup:
    """Symbols, and the problems that algorithms start from.

    Attributes
    ----------
    ops : CasadiOps
    tree : Tree
    constraints : tuple of Constraint
    setting : Setting
    method : str
        Name of the algorithm.
    symbols : list of SX
        One column for each argument, row-major.
    """

    def __init__(
        self,
        ops: CasadiOps,
        tree: Tree,
        constraints: tuple[Constraint, ...],
        arguments: Sequence[Argument],
        payloads: Sequence[str] = (),
        setting: Setting | None = None,
        method: str = "",
    ) -> None:
        self.ops, self.tree, self.constraints = ops, tree, constraints
        self.setting, self.method = setting or Setting(), method
        self.symbols = [ca.SX.sym(a.name, a.size) for a in arguments]
        self._payloads = tuple(payloads)
        self._given = {
            a.name: ca.reshape(x, a.shape[-1], -1).T if len(a.shape) == 2 else x
            for a, x in zip(arguments, self.symbols, strict=True)
        }

    def given(self, name: str) -> Any:
        """What comes with each call under that name: a matrix, a state vector, or None if nothing does."""
        return self._given.get(name)

    def problem(self, q: Any = None) -> Problem:
        """The problem at the configuration ``q`` (a state vector; the argument if None)."""
        names = [i.name for i in inputs_of(self.constraints, self._payloads)]
        given, active = [self._given[name] for name in names], self.given("active")
        q = self._given["q"] if q is None else q
        return Problem(self.ops, self.tree, self.constraints, q, given, self._payloads, active=active)

    def motion(self, q: Any = None, v: Any = None) -> DynamicsProblem:
        """The problem in motion, with all that the options ask for, at ``q`` and ``v`` (the arguments if None)."""
        ops, setting = self.ops, self.setting
        problem = self.problem(q)
        damping = self.given("damping") if setting.damping == "input" else setting.damping
        return DynamicsProblem(
            problem,
            self.given("v") if v is None else v,
            self.given("tau"),
            gravity=self._column("gravity")
            if setting.gravity is None
            else ops.constant([[g] for g in setting.gravity]),
            wrenches=self._wrenches(),
            damping=damping,
            goals=[self._goal(index) for index in range(len(self.constraints))],
        )

    def entries(self, name: str) -> list[Scalar]:
        """Numbers of a vector that comes with each call."""
        vector = self._given[name]
        return [self.ops.entry(vector, k) for k in range(vector.shape[0])]

    def _column(self, name: str) -> Matrix:
        return from_entries(self.ops, self.entries(name))

    def _wrenches(self) -> dict[int, Matrix]:
        out: dict[int, Matrix] = {}
        for index, frame in enumerate(self.setting.wrenches):
            at = frame.on(self.tree)
            if at.link != WORLD:
                turned = self.ops.constant(motion_transform(at.rotation, at.position).T) @ self._column(
                    wrench_name(index)
                )
                out[at.link] = out[at.link] + turned if at.link in out else turned
        return out

    def _goal(self, index: int) -> Goal:
        ops, setting = self.ops, self.setting
        target: Matrix | None = None
        if setting.has("targets", index):
            target = self._column(target_name(index))
        gains = setting.gains[index] if index < len(setting.gains) else None
        velocity_gain, position_gain = gains or (None, None)
        soft = setting.compliance[index] if index < len(setting.compliance) else None
        compliance = None if soft is None else ops.constant([[r] for r in soft])
        return Goal(target, velocity_gain, position_gain or None, self._pose(index), compliance)

    def _pose(self, index: int) -> tuple[Matrix, Matrix] | None:
        if not self.setting.has("poses", index):
            return None
        x = self.entries(pose_name(index))
        turn = self.ops.eye(3) if len(x) == 3 else self.ops.matrix(quaternion_rows(*x[3:]))
        return turn, from_entries(self.ops, x[:3])
