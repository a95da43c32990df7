"""Pinocchio and MuJoCo on constrained forward dynamics of the same robot, where they are installed: peers to time."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from delassus.model.rotations import Array
from delassus_studies.cases import Case
from delassus_studies.peers import pinocchio_contacts, pinocchio_model

MU = 1e-6
"""Proximal parameter of ``lcaba``, which needs one; ``constraintDynamics`` is exact, and fastest, with zero."""


@dataclass(frozen=True, slots=True)
class States:
    """Configurations, velocities and joint forces (k, …)."""

    q: Array
    v: Array
    tau: Array

    def first(self, k: int) -> States:
        """The first k of them."""
        return States(self.q[:k], self.v[:k], self.tau[:k])

    def one_by_one(self) -> list[tuple[Array, Array, Array]]:
        """Each on its own."""
        return [tuple(np.array(x) for x in state) for state in zip(self.q, self.v, self.tau, strict=True)]  # type: ignore[misc]


def random_states(case: Case, n: int, seed: int = 0) -> States:
    """Random configurations, velocities (1 rad/s) and joint forces (10 N·m)."""
    rng = np.random.default_rng(seed)
    nv = case.tree.nv
    return States(case.tree.random(seed, n), rng.normal(size=(n, nv)), 10 * rng.normal(size=(n, nv)))


def pinocchio_calls(case: Case, states: States) -> dict[str, Callable[[], list[Array]]]:
    """Calls that return the accelerations of every state: ``lcaba``, ``constraintDynamics``, with derivatives too."""
    if not importlib.util.find_spec("pinocchio"):
        return {}
    pin: Any = importlib.import_module("pinocchio")
    model = pinocchio_model(pin, case.tree)
    each = states.one_by_one()
    contacts, contact_data = pinocchio_contacts(pin, model, case)
    pin.initConstraintDynamics(model, data := model.createData(), contacts, contact_data)
    exact = pin.ProximalSettings(1e-12, 0.0, 1)

    def dynamics() -> list[Array]:
        return [np.array(pin.constraintDynamics(model, data, *s, contacts, contact_data, exact)) for s in each]

    def derivatives() -> list[Array]:
        out = []
        for s in each:
            out.append(np.array(pin.constraintDynamics(model, data, *s, contacts, contact_data, exact)))
            pin.computeConstraintDynamicsDerivatives(model, data, contacts, contact_data, exact)
        return out

    loops, loop_data = pinocchio_contacts(pin, model, case)  # of its own: lcaba leaves its parameter in them
    pin.computeJointMinimalOrdering(model, ordered := model.createData(), loops)
    soft = pin.ProximalSettings(1e-12, MU, 1)

    def lcaba() -> list[Array]:
        return [np.array(pin.lcaba(model, ordered, *s, loops, loop_data, soft)) for s in each]

    return {"pin lcaba": lcaba, "pin constraintDynamics": dynamics, "pin derivatives": derivatives}
