"""Derivatives of steps of a simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from delassus.contact.changes.step import PulledStep, SceneStepChanges
from delassus.contact.filters import moved_links
from delassus.contact.scene import Scene
from delassus.contact.snapshot import Indices
from delassus.errors import ConfigurationError, require, shown
from delassus.frozen import Frozen
from delassus.model.check import check_choice, check_list, check_number, finite_array
from delassus.model.tree import Tree
from delassus.simulate.controls import ControlRates
from delassus.simulate.sensors import MovedPose
from delassus.solvers.results import SolverStatus
from delassus.spatial.dual_ops import Dual, DualOps
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array

PARAMETERS = ("friction", "restitution", "torsional", "rolling", "mass")
"""What derivatives may be taken with: coefficients and lengths (m) of colliders, and masses of links."""

COLUMNS = 32
"""Numbers at the end of a step that are pulled back at a time: more do not stay in the cache, fewer are more calls."""

EXACT = ("newton", "nsgs", "admm", "interior")
"""Solvers of friction cones."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockMatrix(Frozen):
    """Matrix whose blocks, one for each island of bodies, have rows of their own; all else is zero.

    ``A @ x`` and ``A.T`` cost what the blocks do; `numpy.asarray` makes the whole matrix of it.

    Attributes
    ----------
    shape : (int, int)
    rows, columns : tuples of arrays of int
        Those of each block.
    blocks : tuple of arrays
    """

    shape: tuple[int, int]
    rows: tuple[Indices, ...]
    columns: tuple[Indices, ...]
    blocks: tuple[Array, ...]

    @property
    def T(self) -> BlockMatrix:
        """The transpose."""
        return BlockMatrix(self.shape[::-1], self.columns, self.rows, tuple(b.T for b in self.blocks))

    def __matmul__(self, x: Any) -> Array:
        """Product with a vector or a matrix."""
        x = np.asarray(x)
        out = np.zeros((self.shape[0], *x.shape[1:]))
        for rows, columns, block in zip(self.rows, self.columns, self.blocks, strict=True):
            out[rows] += block @ x[columns]
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The whole matrix."""
        out = np.zeros(self.shape, dtype)
        for rows, columns, block in zip(self.rows, self.columns, self.blocks, strict=True):
            out[rows[:, None], columns] = block
        return out

    def tocsr(self) -> Any:
        """The matrix as a `scipy.sparse.csr_array`.

        Raises
        ------
        MissingDependencyError
            SciPy, of the extra ``contact``, is not installed.
        """
        require("scipy", "contact", "sparse matrices")
        from scipy.sparse import csr_array

        grids = [np.meshgrid(r, c, indexing="ij") for r, c in zip(self.rows, self.columns, strict=True)]
        if not grids:
            return csr_array(self.shape)
        at = tuple(np.concatenate([grid[k].ravel() for grid in grids]) for k in (0, 1))
        return csr_array((np.concatenate([b.ravel() for b in self.blocks]), at), shape=self.shape)


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
        (2 nv, n): with those asked for; coefficients and lengths of the scene's colliders, masses of its links.
    with_moves : BlockMatrix
        (2 nv, 6 k): with the poses that `Simulator.move` had bodies at, by their names in order, in the tangent that
        `Tree.integrate` moves on. In ``A`` these are held.
    distance : float
        Change of a velocity (m/s, rad/s) at which a contact or joint sticks, slides, opens, hits or bounces that does
        otherwise now; derivatives are others there. Zero where several velocities obey the laws of contact: of a body
        that slides and turns on redundant contacts, which share its load, and so its friction, in any way.
    status : SolverStatus
        How the step was solved; `NOT_DIFFERENTIABLE` where derivatives of a part of it are not known.
    """

    A: BlockMatrix
    B: BlockMatrix
    with_parameters: Mapping[str, BlockMatrix]
    with_moves: BlockMatrix
    distance: float
    status: SolverStatus


class AskedParameters(NamedTuple):
    """Parameters that derivatives are asked for with, and how many there are of each; ``smoothing`` in m/s, or None."""

    sizes: Mapping[str, int]
    smoothing: float | None

    @classmethod
    def of(cls, scene: Scene, solver: str, parameters: Iterable[str], smoothing: float | None) -> AskedParameters:
        """What is asked of a scene, whose solver must be one of friction cones."""
        if solver not in EXACT:
            wanted = f"solvers of friction cones: {', '.join(map(repr, EXACT))}"
            raise ConfigurationError("solver", wanted, repr(solver), "Leave out the formulation and the solver.")
        tied = [{*links} for links in scene.tree.blocks([c.carriers(scene.tree) for c in scene.loops])]
        held = {i for links in tied for i in links if any({*c.carriers(scene.tree)} & links for c in scene.loops)}
        for spring in scene.springs:
            if not held.isdisjoint(spring.carriers(scene.tree)):
                raise ConfigurationError(
                    "derivatives of steps", "no springs on links that loops tie", repr(spring),
                    "Take differences of steps.",
                )  # fmt: skip
        smoothing = None if smoothing is None else check_number("smoothing", smoothing, "In m/s.")
        names = check_list("parameters", parameters, "a list of names", f"Some of {', '.join(PARAMETERS)}.")
        for name in names:
            check_choice("parameters", name, PARAMETERS, ConfigurationError)
        for loop in scene.loops if "mass" in names else ():
            if not {*moved_links(scene)}.isdisjoint(loop.carriers(scene.tree)):
                wanted, advice = "no 'mass' with loops on bodies that you move", "Leave 'mass' out."
                raise ConfigurationError("parameters", wanted, repr(loop), advice)
        return cls({x: scene.tree.n_links if x == "mass" else len(scene.colliders) for x in names}, smoothing)


class RecordedStep(NamedTuple):
    """A step to be differentiated: its changes.

    Those of joint forces with positions, velocities and controls, None where they are controls; and of velocities of
    bodies that the user moves, and of those that loops pull along, with positions and velocities (nv, nv).
    """

    changes: Callable[[], SceneStepChanges]
    of_controls: Callable[[], ControlRates | None]
    moved: Sequence[MovedPose]
    pulled: tuple[Array, Array] | None

    @property
    def led(self) -> Indices:
        """Degrees of freedom (6 k,) that end where the user wants them, whatever loops do; none without such loops."""
        own = [np.arange(dofs.start, dofs.stop) for dofs, *_ in self.moved] if self.pulled is not None else []
        return np.concatenate([np.zeros(0, np.int64), *own])

    def pull_moves(self, q: Array, v: Array) -> Array:
        """From what counts positions and velocities (nv, m) before the step to that of poses (6 k, m).

        Velocities of bodies that the user moves are no more their own: they follow from poses before and after.
        """
        if self.pulled is not None:
            by_q, by_v = self.pulled
            q += by_q.T @ v
            v[:] = by_v.T @ v
        out = np.zeros((6 * len(self.moved), q.shape[1]))
        for k, (dofs, by_q, by_pose) in enumerate(self.moved):
            q[dofs] += by_q.T @ v[dofs]
            out[6 * k : 6 * k + 6] = by_pose.T @ v[dofs]
            v[dofs] = 0.0
        return out


def step_derivatives(recorded: RecordedStep, asked: AskedParameters, dofs: Indices) -> StepDerivatives:
    """Derivatives of a step; ``dofs`` are degrees of freedom of the scene in the order of its blocks.

    Islands are pulled back side by side, of each the same of its numbers.
    """
    step, rates = recorded.changes(), recorded.of_controls()
    first, nv, islands = step.first, len(dofs), step.islands
    places = [np.concatenate([np.arange(first[b], first[b + 1]) for b in blocks]) for blocks in islands]
    most, number = max(map(len, places), default=0), np.zeros(nv, np.int64)
    for at in places:
        number[at] = np.arange(len(at))
    found, led = list[PulledStep](), np.argsort(dofs)[recorded.led]
    for begin in range(0, 2 * most, COLUMNS):
        column = np.arange(begin, min(begin + COLUMNS, 2 * most))
        with_q, with_v = (1.0 * (number[:, None] == column - shift) for shift in (0, most))
        with_q[led] = 0.0
        found.append(step.pulled(with_q, with_v))
    every = PulledStep(*(np.concatenate(parts, axis=1) for parts in zip(*found, strict=True)))
    of_scene = np.empty((2, *every.q.shape))
    of_scene[:, dofs] = every.q, every.v
    moves = recorded.pull_moves(*of_scene)
    moves[np.arange(len(led)), number[led]] += 1.0
    every = every._replace(q=of_scene[0][dofs], v=of_scene[1][dofs])
    of_moves, with_moves, order = list[Indices](), list[Array](), [own.start for own, *_ in recorded.moved]
    rows, columns = list[Indices](), list[Indices]()
    A, B, given = list[Array](), list[Array](), {name: list[tuple[Indices, Array]]() for name in asked.sizes}
    for blocks, at in zip(islands, places, strict=True):
        own = np.concatenate([np.arange(len(at)), most + np.arange(len(at))])
        with_q, with_v, with_tau = (x[at][:, own].T for x in (every.q, every.v, every.tau))
        block, acting, with_u = _with_controls(np.hstack([with_q, with_v]), with_tau, dofs[at], rates)
        A.append(block)
        B.append(with_u)
        columns.append(acting)
        rows.append(np.concatenate([dofs[at], nv + dofs[at]]))
        own_moves = [6 * k + np.arange(6) for k, start in enumerate(order) if start in dofs[at]]
        of_moves.append(np.concatenate([np.zeros(0, np.int64), *own_moves]))
        with_moves.append(moves[of_moves[-1]][:, own].T)
        for name, of_name in given.items():
            which, counts = step.with_parameter(name, every, blocks)
            of_name.append((which, counts[:, own].T))
    shape, of_rows = (2 * nv, 2 * nv), tuple(rows)
    n_controls = nv if rates is None else rates[2].shape[1]
    with_parameters = {
        name: BlockMatrix((2 * nv, asked.sizes[name]), of_rows, *(tuple(x) for x in zip(*parts, strict=True)))
        for name, parts in given.items()
    }
    return StepDerivatives(
        BlockMatrix(shape, of_rows, of_rows, tuple(A)),
        BlockMatrix((2 * nv, n_controls), of_rows, tuple(columns), tuple(B)),
        with_parameters, BlockMatrix((2 * nv, len(moves)), of_rows, tuple(of_moves), tuple(with_moves)),
        step.distance, step.status,
    )  # fmt: skip


def _with_controls(
    with_state: Array, with_tau: Array, at: Indices, rates: ControlRates | None
) -> tuple[Array, Indices, Array]:
    """Blocks of ``A`` and ``B`` of an island, and the controls that act on it."""
    if rates is None:
        return with_state, at, with_tau
    with_q, with_v, with_u = (x[at] for x in rates)
    acting = np.flatnonzero(with_u.any(axis=0))
    return with_state + with_tau @ np.hstack([with_q[:, at], with_v[:, at]]), acting, with_tau @ with_u[:, acting]


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
        With those asked for; coefficients and lengths of the scene's colliders, masses of its links.
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
    tree: Tree,
    states: tuple[Array, Array],
    loss: Loss,
    steps: Sequence[RecordedStep],
    asked: AskedParameters,
    dofs: Indices,
) -> TrajectoryGradient:
    """Gradient of a function of a trajectory, back from its end; ``dofs`` as in `step_derivatives`."""
    q, v = states
    found = loss(q, v) if callable(loss) else loss
    if not isinstance(found, tuple) or len(found) != 3:
        advice = "Return the loss, its derivatives with q and those with v."
        raise ConfigurationError("loss", "three: a number and two arrays", shown(found), advice)
    value = float(finite_array(found[0], (), "loss", "Its value comes first."))
    advice = "One row for each state, from the start on."
    by_q = _in_tangents(tree, q, finite_array(found[1], q.shape, "derivatives of the loss with q", advice))
    by_v = finite_array(found[2], v.shape, "derivatives of the loss with v", advice)
    counts, distance, statuses, controls = (by_q[-1].copy(), by_v[-1]), np.inf, list[SolverStatus](), list[Array]()
    parameters = {name: np.zeros(size) for name, size in asked.sizes.items()}
    for t in range(len(steps) - 1, -1, -1):
        step, rates = steps[t].changes(), steps[t].of_controls()
        counts[0][steps[t].led] = 0.0
        pulled = step.pulled(*(x[dofs, None] for x in counts))
        for name, given in parameters.items():
            which, of_name = step.with_parameter(name, pulled, np.arange(len(step.first) - 1))
            given[which] += of_name[:, 0]
        of_q, of_v, of_tau = np.zeros((3, tree.nv))
        of_q[dofs], of_v[dofs], of_tau[dofs] = pulled.q[:, 0], pulled.v[:, 0], pulled.tau[:, 0]
        steps[t].pull_moves(of_q[:, None], of_v[:, None])
        if rates is not None:
            of_q, of_v, of_tau = of_q + rates[0].T @ of_tau, of_v + rates[1].T @ of_tau, rates[2].T @ of_tau
        controls.append(of_tau)
        counts = of_q + by_q[t], of_v + by_v[t]
        distance = min(distance, step.distance)
        statuses.append(step.status)
    of_controls = np.array(controls[::-1])
    return TrajectoryGradient(value, q, v, of_controls, *counts, parameters, distance, tuple(statuses[::-1]))


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
