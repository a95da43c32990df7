"""Closed loops: configurations that close them; declarations, and the functions that compute them at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.accuracy.rank import REGULAR_CONDITION
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.loops.closing import close_loops as closing
from delassus.algorithms.loops.closing import closed_within
from delassus.constraints import check_constraints
from delassus.errors import ConstraintError
from delassus.frozen import Frozen
from delassus.model.check import check_batch, check_generator
from delassus.model.tree import Tree
from delassus.quantities.bound_request import BoundRequest, stacked
from delassus.quantities.evaluate import KERNELS, CompiledRequest, bind
from delassus.quantities.options import Arrays, Constraints
from delassus.quantities.osim import jacobian
from delassus.quantities.quantity import Output, Quantity
from delassus.quantities.request import AUTO
from delassus.spatial.ops import Matrix
from delassus.spatial.rotations import Array

ROUNDS, AT_LEAST = 20, 64
"""How often random configurations are drawn, and how many at least."""


class LoopStatus(Enum):
    """Whether loops are closed at a configuration; the text says what that means for the user.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.LoopStatus.CLOSED.text
    'every constraint holds'
    """

    CLOSED = "every constraint holds"
    OPEN = "gaps are least here, but not zero: start nearer to where loops are closed, or hold fewer joints"

    @property
    def text(self) -> str:
        """What this status means for the user."""
        return str(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class ClosedLoops(Frozen):
    """Configurations that `close_loops` has found; all arrays are read-only.

    Attributes
    ----------
    q : (..., nq) array
        Configurations: where the status is `OPEN`, those of the smallest gaps on the way.
    status : (...) array of LoopStatus
        Whether loops are closed; the member's ``text`` is the advice.
    residual : (...) array
        Norm of the gaps of all rows there (m, rad), rotations by twice the sine of half their angle.
    rank : (...) array of int
        Number of independent rows there: ``nv - rank`` velocities are free. Singular values of the Jacobian below 1e-5
        of the largest, or of the robot's length, count as zero.

    Examples
    --------
    >>> import delassus as ds
    >>> arms = ds.mechanisms.star(2, 3, root="fixed")
    >>> found = ds.close_loops(arms, ds.Point("branch1_3", "branch2_3"), arms.random(0, batch=5))
    >>> found.q.shape, {status.name for status in found.status}, found.rank.tolist()
    ((5, 6), {'CLOSED'}, [3, 3, 3, 3, 3])
    """

    q: Array
    status: NDArray[np.object_]
    residual: Array
    rank: NDArray[np.int_]

    def __post_init__(self) -> None:
        for array in (self.q, self.status, self.residual, self.rank):
            array.setflags(write=False)


def at_rest(bound: BoundRequest, q: Any = None) -> DynamicsProblem:
    """The robot at rest at a configuration (the argument if None), without gravity."""
    return DynamicsProblem(bound.problem(q), None, None, gravity=bound.ops.zeros(3, 1))


def _close_loops(bound: BoundRequest) -> list[Matrix]:
    tree = bound.tree
    held = [k for name in bound.request.options.hold for k in range(*tree.v_index(name).indices(tree.nv))]
    q, gap = closing(lambda q: at_rest(bound, q), bound.entries("q"), held)
    return [stacked(bound, q), bound.ops.matrix([[gap]])]


CLOSE_LOOPS = Quantity(
    "close_loops",
    "Nearest configuration at which constraints hold",
    ("q",),
    (
        Output("q_closed", ("nq",), "configuration at which constraints hold, or of the smallest gaps on the way"),
        Output("residual", (), "norm of the gaps of all rows there, m and rad"),
    ),
    _close_loops,
    options=frozenset({"hold"}),
)


def close_loops(
    tree: Tree, constraints: Constraints, q: ArrayLike, *, hold: Iterable[str] = (), **given: Unpack[Arrays]
) -> ClosedLoops:
    """Nearest configuration at which constraints hold, by damped Gauss-Newton steps in machine code.

    Each step is the shortest one (rad, m) that closes the gaps to first order, so that from near a closed configuration
    the result is the nearest one but for the square of the distance. Rows may depend on one another. The first call for
    a robot compiles; ``ds.compile(tree, constraints, "close_loops", hold=…)`` is the kernel itself.

    Parameters
    ----------
    tree : Tree
    constraints : Constraint or iterable of Constraint
        What is to hold: loops, couplings of joints, distances. None stands for ``tree.constraints``. Frames that are
        held to the world stay where they are at ``q``; of `Rows` and of a `Distance` without a length there is no gap.
    q : (..., nq) array_like
        Configurations to start from; leading axes are batches.
    hold : iterable of str
        Names of joints whose coordinates stay: motors, say.
    rows, placements, payloads : optional
        As `delassus` takes them.

    Returns
    -------
    ClosedLoops
        Configurations with a status, the gaps that are left, and the rank of the rows; of arrays of JAX or PyTorch,
        configurations and gaps.

    Raises
    ------
    ConstraintError, UnknownNameError, ConfigurationError
        As `delassus`; a joint that the tree does not have.

    References
    ----------
    Yamashita, Fukushima, "On the rate of convergence of the Levenberg-Marquardt method", 2001.

    Examples
    --------
    >>> import delassus as ds
    >>> arms = ds.mechanisms.star(2, 3, root="fixed")
    >>> q = arms.random(0)
    >>> found = ds.close_loops(arms, ds.Point("branch1_3", "branch2_3"), q, hold=["branch1_2_joint"])
    >>> found.status.item().name, bool(found.q[1] == q[1]), bool(found.residual < 1e-11)
    ('CLOSED', True, True)
    """
    bound = bind(tree, constraints, CLOSE_LOOPS, {"q": q}, AUTO, hold=hold, **given)
    if isinstance(bound, CompiledRequest):
        compiled: Any = bound.solution()
        return compiled  # type: ignore[no-any-return]
    (make,) = KERNELS
    kernel = make(bound.request, "float64", ", for close_loops")
    found, residual = kernel(*(bound.values[a.name] for a in bound.request.arguments))
    status = np.full(residual.shape, LoopStatus.OPEN, dtype=object)
    status[residual <= closed_within(at_rest(bound))] = LoopStatus.CLOSED
    J = jacobian(tree, constraints, found, **given)
    values = np.linalg.eigvalsh(J @ np.swapaxes(J, -1, -2))
    size = np.max(values, axis=-1, keepdims=True, initial=bound.problem().length ** 2)
    return ClosedLoops(found, status, residual, np.count_nonzero(values > REGULAR_CONDITION * size, axis=-1))


def random_configurations(
    tree: Tree,
    constraints: Constraints = None,
    rng: np.random.Generator | int | None = None,
    batch: int | tuple[int, ...] = (),
) -> Array:
    """Random configurations at which constraints hold, joints within their limits.

    They are those that `close_loops` finds from ``tree.random``, without those that are open or beyond a limit.

    Parameters
    ----------
    tree : Tree
    constraints : Constraint or iterable of Constraint, optional
        As `close_loops` takes them; ``tree.constraints`` by default.
    rng : numpy.random.Generator or int, optional
        Generator, or the seed of one.
    batch : int or tuple of int
        Leading shape.

    Returns
    -------
    (*batch, nq) array

    Raises
    ------
    ConstraintError
        Too few of many random configurations close within the limits.
    ConfigurationError
        ``rng`` is neither a generator nor a seed, or ``batch`` is no shape.

    Examples
    --------
    >>> import delassus as ds
    >>> arms = ds.mechanisms.star(2, 3, root="fixed")
    >>> ds.random_configurations(arms, ds.Point("branch1_3", "branch2_3"), 0, batch=10).shape
    (10, 6)
    """
    checked, rng, shape = check_constraints(tree, constraints), check_generator(rng), check_batch(batch)
    wanted, found = prod(shape), np.zeros((0, tree.nq))
    one = [joint.nq == 1 for joint in tree.joints]
    at_q, at_v = ([part.start for part, only in zip(parts, one, strict=True) if only]
                  for parts in (tree.q_slices, tree.v_slices))  # fmt: skip
    for _ in range(ROUNDS):
        if len(found) >= wanted:
            return found[:wanted].reshape(*shape, tree.nq)
        closed = close_loops(tree, checked, tree.random(rng, max(wanted - len(found), AT_LEAST)))
        angles = closed.q[:, at_q]
        within = np.all((angles >= tree.lower[at_v]) & (angles <= tree.upper[at_v]), axis=-1)
        found = np.concatenate([found, closed.q[within & (closed.status == LoopStatus.CLOSED)]])
    raise ConstraintError(
        "constraints", f"{wanted} configurations at which they hold, joints within their limits",
        f"{len(found)} of {ROUNDS} draws", "Use close_loops from configurations of your own, or wider limits.",
    )  # fmt: skip
