"""Derivatives of steps of a simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from delassus.contact.changes.matrix import BlockMatrix
from delassus.contact.changes.record import StepRecord
from delassus.contact.changes.step import PARAMETERS, IslandChanges, SceneChanges
from delassus.contact.results import SolverStatus
from delassus.contact.scene import Scene
from delassus.contact.snapshot import Indices
from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import check_choice, check_list, check_number, finite_array
from delassus.model.tree import Tree
from delassus.simulate.controls import Rates
from delassus.spatial.dual_ops import Dual, DualOps
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array

EXACT = ("newton", "nsgs", "admm", "interior")
"""Solvers of friction cones."""


@dataclass(frozen=True, slots=True, eq=False)
class StepDerivatives(Frozen):
    """Derivatives of one step of a `Simulator`: ``[δq⁺; δv⁺] = A [δq; δv] + B δu``.

    Changes of configurations are in the tangent that `Tree.integrate` moves on, as those of
    `delassus.step_derivatives`. Bodies that no contact ties have no entries with one another.

    Attributes
    ----------
    A : BlockMatrix
        (2 nv, 2 nv): of the state after the step with that before.
    B : BlockMatrix
        (2 nv, nu): with joint forces, controls or target configurations, as `Simulator.step` takes them.
    with_parameters : mapping of str to BlockMatrix
        (2 nv, n): with those asked for; friction and restitution of the scene's colliders, masses of its links
        (zero of those that are not free bodies).
    distance : float
        Change of a velocity (m/s, rad/s) at which a contact or joint sticks, slides or opens that does otherwise now;
        derivatives are others there.
    status : SolverStatus
        How the step was solved; `NOT_DIFFERENTIABLE` where derivatives of a part of it are not known.
    """

    A: BlockMatrix
    B: BlockMatrix
    with_parameters: Mapping[str, BlockMatrix]
    distance: float
    status: SolverStatus


class Asked(NamedTuple):
    """Parameters that derivatives are asked for with, and how many there are of each; ``smoothing`` in m/s, or None."""

    sizes: Mapping[str, int]
    smoothing: float | None

    @classmethod
    def of(cls, scene: Scene, solver: str, parameters: Iterable[str], smoothing: float | None) -> Asked:
        """What is asked of a scene, whose solver must be one of friction cones."""
        if solver not in EXACT:
            wanted = f"solvers of friction cones: {', '.join(map(repr, EXACT))}"
            raise ConfigurationError("solver", wanted, repr(solver), "Leave out the formulation and the solver.")
        smoothing = None if smoothing is None else check_number("smoothing", smoothing, "In m/s.")
        names = check_list("parameters", parameters, "a list of names", f"Some of {', '.join(PARAMETERS)}.")
        for name in names:
            check_choice("parameters", name, PARAMETERS, ConfigurationError)
        return cls({x: scene.tree.n_links if x == "mass" else len(scene.colliders) for x in names}, smoothing)


def step_derivatives(
    changes: SceneChanges,
    record: StepRecord,
    asked: Asked,
    dofs: Indices,
    of_controls: Callable[[], Rates | None],
) -> StepDerivatives:
    """Derivatives of a recorded step; ``dofs`` are degrees of freedom of the scene in the order of its blocks.

    ``of_controls``: changes of joint forces with positions, velocities and controls, None where they are controls.
    """
    islands, distance, known = changes.all(record, asked.smoothing, list(asked.sizes))
    rates = of_controls()
    nv, places = len(dofs), [dofs[island.dofs] for island in islands]
    made = [_with_controls(x, at, rates) for x, at in zip(islands, places, strict=True)]
    rows = tuple(np.concatenate([at, nv + at]) for at in places)
    A = BlockMatrix((2 * nv, 2 * nv), rows, rows, tuple(block for block, _, _ in made))
    n_controls = nv if rates is None else rates[2].shape[1]
    B = BlockMatrix((2 * nv, n_controls), rows, tuple(at for _, at, _ in made), tuple(block for *_, block in made))
    given = {name: _with_parameter(name, islands, rows, (2 * nv, size)) for name, size in asked.sizes.items()}
    return StepDerivatives(A, B, given, distance, record.status if known else SolverStatus.NOT_DIFFERENTIABLE)


def _with_parameter(
    name: str, islands: Sequence[IslandChanges], rows: tuple[Any, ...], shape: tuple[int, int]
) -> BlockMatrix:
    found = [island.given[name] for island in islands]
    return BlockMatrix(shape, rows, tuple(which for which, _ in found), tuple(block for _, block in found))


def _with_controls(island: IslandChanges, at: Any, rates: Rates | None) -> tuple[Array, Any, Array]:
    """Blocks of ``A`` and ``B`` of an island, and the controls that act on it."""
    with_state = np.hstack([island.with_q, island.with_v])
    if rates is None:
        return with_state, at, island.with_tau
    with_q, with_v, with_u = (x[at] for x in rates)
    acting = np.flatnonzero(with_u.any(axis=0))
    with_state = with_state + island.with_tau @ np.hstack([with_q[:, at], with_v[:, at]])
    return with_state, acting, island.with_tau @ with_u[:, acting]


@dataclass(frozen=True, slots=True, eq=False)
class TrajectoryGradient(Frozen):
    """Value and gradient of a function of a trajectory of T steps.

    Attributes
    ----------
    value : float
    q, v : (T + 1, nq) and (T + 1, nv) arrays
        The trajectory, from its start on.
    controls : (T, nu) array
        Gradient with the controls of each step.
    q0, v0 : (nv,) arrays
        With the state at the start, that of positions in the tangent that `Tree.integrate` moves on.
    parameters : mapping of str to (n,) array
        With those asked for; friction and restitution of the scene's colliders, masses of its links
        (zero of those that are not free bodies).
    distance : float
        The smallest of the steps, see `StepDerivatives`.
    statuses : tuple of SolverStatus
        Of each step.
    """

    value: float
    q: Array
    v: Array
    controls: Array
    q0: Array
    v0: Array
    parameters: Mapping[str, Array]
    distance: float
    statuses: tuple[SolverStatus, ...]


Loss = Callable[[Array, Array], tuple[float, ArrayLike, ArrayLike]]
"""From a trajectory (T + 1, nq) and (T + 1, nv) to a number and its derivatives with both."""


def trajectory_gradient(
    tree: Tree, q: Array, v: Array, loss: Loss, steps: Sequence[Callable[[], StepDerivatives]]
) -> TrajectoryGradient:
    """Gradient of a function of a trajectory, whose ``steps`` say their derivatives, back from its end."""
    found = loss(q, v)
    if not isinstance(found, tuple) or len(found) != 3:
        advice = "Return the loss, its derivatives with q and those with v."
        raise ConfigurationError("loss", "three: a number and two arrays", shown(found), advice)
    value, advice = float(found[0]), "One row for each state, from the start on."
    by_q = _in_tangents(tree, q, finite_array(found[1], q.shape, "derivatives of the loss with q", advice))
    by_v = finite_array(found[2], v.shape, "derivatives of the loss with v", advice)
    adjoint = np.concatenate([by_q[-1], by_v[-1]])
    distance, statuses, controls, parameters = np.inf, list[SolverStatus](), list[Array](), dict[str, Array]()
    for t in range(len(steps) - 1, -1, -1):
        step = steps[t]()
        controls.append(step.B.T @ adjoint)
        for name, matrix in step.with_parameters.items():
            parameters[name] = parameters.get(name, 0.0) + matrix.T @ adjoint
        adjoint = step.A.T @ adjoint + np.concatenate([by_q[t], by_v[t]])
        distance = min(distance, step.distance)
        statuses.append(step.status)
    nv, of_controls = tree.nv, np.array(controls[::-1])
    return TrajectoryGradient(
        value, q, v, of_controls, adjoint[:nv], adjoint[nv:], parameters, distance, tuple(statuses[::-1])
    )


def _in_tangents(tree: Tree, q: Array, by_q: Array) -> Array:
    """Derivatives (T, nv) along tangents from those with coordinates (T, nq)."""
    ops, out = DualOps(NUMPY), np.zeros((len(q), tree.nv))
    for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        moved: Any = [Dual(np.zeros(len(q)), {k: 1.0}) for k in range(joint.nv)]
        place: Any = joint.kind.integrate(ops, [Dual(x) for x in q[:, sq].T], moved)
        for x, given in zip(place, by_q[:, sq].T, strict=True):
            for k in range(joint.nv):
                out[:, sv.start + k] += x.rate(k) * given
    return out
