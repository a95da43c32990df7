"""What configurations taken at random do not show: how many rows of loops are independent where these are closed.

And which coordinates are. Closed configurations are found from random ones by `delassus.algorithms.loops.closing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.rank import REGULAR_CONDITION, common_rank
from delassus.algorithms.articulated import Articulated
from delassus.algorithms.clusters.transmission import units
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.inputs import generic_values, inputs_of
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.loops.closing import close_loops, closed_within
from delassus.algorithms.loops.independent import moved_rows, rank, row_squares, transmission
from delassus.algorithms.osim.kjr import kjr
from delassus.algorithms.osim.least_squares import UNMOVED, mobility_bound
from delassus.algorithms.problem import Problem
from delassus.compiler.program.traced import Traced
from delassus.constraints import Constraint
from delassus.errors import ConstraintError
from delassus.frozen import body_of
from delassus.model.kinematics import generic_configurations
from delassus.model.topology import characteristic_length
from delassus.model.tree import Tree
from delassus.spatial.joint_kinds import FREE
from delassus.spatial.motion import diagonal, from_entries
from delassus.spatial.ops import Matrix
from delassus.spatial.rotations import Array
from delassus.spatial.trace.graph import undisturbed
from delassus.spatial.trace.trace_ops import TraceOps

STARTS = 32
"""Configurations to start from."""

WANTED = 12
"""Closed configurations that are enough."""

STEPS = 40
"""Most steps from each start."""

NEAR = 0.3
"""Half of the starts are so near to neutral (rad and m, standard deviation)."""

MOVES = 1e-6
"""A coordinate is independent of others where the square of what it moves by itself is above this, of 1."""

ROUND_OFF = 64.0 * float(np.finfo(float).eps)
"""Mobility of a row between two links that move alike, by the bound: it is a difference of theirs."""

Constraints = tuple[Constraint, ...]


def rank_when_closed(tree: Tree, constraints: Sequence[Constraint]) -> tuple[int, int] | None:
    """Rank of all rows where loops are closed, and their number; None: no loops, or none could be closed.

    Loops are constraints between two frames, one of which may be on the world, that do not come with each call.
    Couplings of joints hold there, too; constraints on one frame hold it wherever it is. Of several closed
    configurations the largest rank counts. Near singular ones, which are known to the root of round-off only, rows are
    small beside what they are elsewhere, and do not count.
    """
    found = _found(tree, constraints)
    return None if found is None else found[:2]


def are_dependent(tree: Tree, constraints: Constraints) -> bool:
    """Whether rows depend on one another at almost all configurations, or at almost all that close the loops."""
    closed = rank_when_closed(tree, constraints)
    return (closed is not None and closed[0] < closed[1]) or are_always_dependent(tree, constraints)


@lru_cache(maxsize=256)
@undisturbed
def lose_rank_when_closed(tree: Tree, constraints: Constraints) -> bool:
    """Whether fewer rows are independent where loops are closed than elsewhere: what holds them gapes at no other."""
    closed = rank_when_closed(tree, constraints)
    return closed is not None and closed[0] < _rank_anywhere(tree, constraints)


def are_rows_of_loops(tree: Tree, constraints: Constraints) -> bool:
    """Whether rows are those of closed loops (`Constraint.as_loop`), of the same rank, also where loops gape."""
    return all(c.top(tree) == c.as_loop.top(tree) for c in constraints) and not lose_rank_when_closed(tree, constraints)


@lru_cache(maxsize=256)
@undisturbed
def are_always_dependent(tree: Tree, constraints: Constraints) -> bool:
    """Whether rows depend on one another at almost all configurations, whether they close loops or not."""
    return bool(constraints) and _rank_anywhere(tree, constraints) < sum(c.size for c in constraints)


def lose_rank_at(tree: Tree, constraints: Constraints, q: Array) -> bool:
    """Whether fewer rows are independent at some of the configurations (k, nq) than at almost all."""
    return bool(np.min(_ranks_at(tree, constraints, q, ROUND_OFF)) < _rank_anywhere(tree, constraints))


def _rank_anywhere(tree: Tree, constraints: Constraints) -> int:
    """Rank of rows at almost all configurations."""
    return int(np.max(_ranks_at(tree, constraints, generic_configurations(tree, 0, (WANTED,)), UNMOVED)))


def _ranks_at(tree: Tree, constraints: Sequence[Constraint], q: Array, unmoved: float) -> NDArray[np.int_]:
    """Ranks (k) of rows at configurations (k, nq), of those whose mobility is above some of its bound."""

    def made(problem: Problem) -> list[Matrix]:
        return [kjr(problem), from_entries(problem.ops, mobility_bound(problem, Articulated(problem)))]

    G, typical = at_configurations(tree, constraints, q, made)
    return common_rank(G, np.max(unmoved * typical[..., 0], axis=0, initial=0.0))


def closed_states(tree: Tree, constraints: Sequence[Constraint]) -> tuple[Array, Array] | None:
    """Some configurations (k, nq) at which loops are closed, and what takes velocities to such as keep them closed.

    The latter are projections (k, nv, nv).
    """
    found = _found(tree, constraints)
    return None if found is None else found[2:]


@body_of("Tree.independent")
@lru_cache(maxsize=256)
@undisturbed
def independent_coordinates(
    tree: Tree, constraints: Constraints, names: tuple[str, ...] | None = None
) -> tuple[int, ...]:
    """Degrees of freedom whose velocities determine all others where constraints hold, at almost all such places.

    Those of the joints named; else of joints that actuators act on, then of free joints, as far as they are independent
    of those before, then of others, the one that moves most by itself first.

    Raises
    ------
    ConstraintError
        No configuration is found at which constraints hold; the joints named are too few or depend on one another.
    """
    with np.errstate(all="ignore"):
        q = _closed_configurations(tree, constraints)
    if not len(q):
        raise ConstraintError(
            "constraints", "some that hold at one of many configurations", f"none that do for {tree.name!r}",
            "Check frames and lengths; ds.close_loops says how far apart they are.",
        )  # fmt: skip
    J, squares = at_configurations(tree, constraints, q, _rows_in_units)
    largest = np.max(np.linalg.norm(J, axis=-1), axis=0, initial=0.0)
    least = REGULAR_CONDITION**0.5
    moved = largest > least * np.sqrt(np.max(squares[..., 0], axis=0))
    J = J * np.where(moved, 1.0 / np.where(moved, largest, 1.0), 0.0)[:, None]
    _, sizes, V = np.linalg.svd(J)
    rank = np.count_nonzero(sizes > least * np.max(sizes, initial=0.0), axis=-1)
    n = tree.nv - int(np.max(rank, initial=0))
    null = V[rank == tree.nv - n][:, tree.nv - n :]  # rows are motions that constraints allow
    free = np.swapaxes(null, -1, -2) @ null
    driven = [name for actuator in tree.actuators for name in actuator.transmission]
    floating = [joint.name for joint in tree.joints if joint.kind is FREE]
    first = [k for name in (names or [*driven, *floating]) for k in range(*tree.v_index(name).indices(tree.nv))]
    chosen: list[int] = []
    while len(chosen) < n or (names and first):
        moves = np.median(np.diagonal(free, axis1=-2, axis2=-1), axis=0)
        k = first.pop(0) if first else int(np.argmax(moves)) if names is None else None
        if k is not None and len(chosen) < n and moves[k] > MOVES:
            chosen.append(k)
            column = free[:, :, k, None]
            free = free - column @ np.swapaxes(column, -1, -2) / np.maximum(free[:, k, k], MOVES)[:, None, None]
        elif names is not None:
            wanted, came = f"joints of {n} degree(s) of freedom that determine all others", f"{list(names)}"
            raise ConstraintError("independent", wanted, came, "Leave it out for those that tree.independent takes.")
    return tuple(chosen)


@lru_cache(maxsize=256)
@undisturbed
def usual_output(
    tree: Tree, constraints: Constraints, independent: tuple[int, ...], output: Constraints
) -> tuple[float, int]:
    """How far rows of an output move where constraints hold, as a part of `row_squares`, and how many independently.

    That is the median of the largest row, of independent coordinates that move at one, and the largest rank.
    """

    def moved_of(problem: Problem) -> tuple[Problem, Matrix]:
        still, ops = [0.0] * tree.nv, problem.ops
        closed = DynamicsProblem(problem, still, None, gravity=ops.zeros(3, 1))
        of_output = Problem(ops, tree, output, problem.q)
        return of_output, moved_rows(of_output, transmission(closed, independent).G, independent)

    def usual(problem: Problem) -> list[Matrix]:
        of_output, moved = moved_of(problem)
        return [moved, from_entries(problem.ops, row_squares(of_output))]

    with np.errstate(all="ignore"):
        q = _closed_configurations(tree, constraints)
        moved, sizes = at_configurations(tree, constraints, q, usual)
        part = float(np.median(np.max(np.sum(np.nan_to_num(moved) ** 2, axis=-1) / sizes[..., 0], axis=-1)))
        (ranks,) = at_configurations(tree, constraints, q, lambda x: [x.ops.matrix([[rank(*moved_of(x), part)]])])
        return part, int(np.nanmax(ranks))


def at_configurations(
    tree: Tree, constraints: Sequence[Constraint], q: Array, make: Callable[[Problem], Sequence[Matrix]]
) -> list[Array]:
    """What ``make`` makes of the robot at configurations (k, nq), and with each call anything: arrays (k, i, j)."""
    ops = TraceOps()
    found = make(_problem(ops, tree, constraints, ops.vector(tree.nq, generic_configurations(tree, 0).tolist())))
    values = Traced(ops, [ops.nodes(a) for a in found], tree.nq)(q)
    return [x.reshape(len(q), *ops.shape(a)) for a, x in zip(found, values, strict=True)]


def _problem(ops: TraceOps, tree: Tree, constraints: Sequence[Constraint], q: Any) -> Problem:
    """The robot at a configuration, and with each call anything."""
    random, length, given = np.random.default_rng(0), characteristic_length(tree), list[Any]()
    for argument in inputs_of(constraints):
        x = generic_values(argument, length, random)
        given.append(ops.constant(x) if x.ndim == 2 else x.tolist())
    return Problem(ops, tree, constraints, q, given)


def _rows_in_units(problem: Problem) -> list[Matrix]:
    """Jacobian in `units`, and the squares of the sizes of its rows."""
    J = jacobian(problem) @ diagonal(problem.ops, units(problem))
    return [J, from_entries(problem.ops, row_squares(problem))]


def _found(tree: Tree, constraints: Sequence[Constraint]) -> tuple[int, int, Array, Array] | None:
    holding = tuple(c for c in constraints if c.holds and not c.n_impulses)
    return _rank(tree, holding) if any(c.is_loop for c in holding) else None


@lru_cache(maxsize=256)
@undisturbed
def _rank(tree: Tree, holding: Constraints) -> tuple[int, int, Array, Array] | None:
    loops = tuple(c for c in holding if c.is_loop or c.position_coefficients(tree))
    with np.errstate(all="ignore"):
        q = _closed_configurations(tree, loops)
        if not len(q):
            return None
        rank = int(np.max(_ranks_at(tree, holding, q, ROUND_OFF)))
    return rank, sum(c.size for c in holding), q, kept_closed(tree, loops, q)


def kept_closed(tree: Tree, loops: Sequence[Constraint], q: Array) -> Array:
    """Projections (k, nv, nv) of velocities to those that keep loops closed, at configurations (k, nq)."""
    J, squares = at_configurations(tree, loops, q, lambda x: [jacobian(x), from_entries(x.ops, row_squares(x))])
    sizes = np.sqrt(np.max(squares[..., 0], axis=0))
    J = J / np.where(sizes > 0.0, sizes, 1.0)[:, None]
    return np.asarray(np.eye(tree.nv) - np.linalg.pinv(J, rcond=REGULAR_CONDITION**0.5) @ J)


@lru_cache(maxsize=256)
def _closed_configurations(tree: Tree, loops: Constraints) -> Array:
    """Configurations (k, nq) at which the loops are closed, from random ones; k may be zero."""
    random, half = np.random.default_rng(0), STARTS // 2
    near = tree.integrate(tree.neutral(), random.normal(0.0, NEAR, (half, tree.nv)))
    q = np.concatenate([near, generic_configurations(tree, random, (STARTS - half,))])

    def closing(problem: Problem) -> list[Matrix]:
        def at_rest(q: Any) -> DynamicsProblem:
            return DynamicsProblem(problem.at(q, range(len(loops))), None, None, gravity=problem.ops.zeros(3, 1))

        found, gap = close_loops(at_rest, list(problem.q), steps=STEPS)
        is_closed = problem.ops.less(gap, closed_within(at_rest(problem.q)))
        return [from_entries(problem.ops, x) for x in (found, [is_closed])]

    found, closed = at_configurations(tree, loops, q, closing)
    out = np.asarray(found[closed[:, 0, 0] > 0.0, :, 0][:WANTED])
    out.setflags(write=False)
    return out
