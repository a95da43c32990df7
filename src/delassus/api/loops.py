"""Closed loops at once: configurations that close them, and the dynamics of independent coordinates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.api.direct import bind
from delassus.constraints import Constraint, check_constraints
from delassus.errors import ConstraintError
from delassus.frozen import Explained, Frozen
from delassus.model.check import check_batch, check_generator
from delassus.model.topology import check_tree
from delassus.model.tree import Tree
from delassus.quantities.declarations.loops import CLOSE_LOOPS, REDUCED_DYNAMICS
from delassus.quantities.keywords import ConstraintArguments, Constraints, Passive
from delassus.quantities.planner.methods import AUTO
from delassus.spatial.rotations import Array

ROUNDS, AT_LEAST = 20, 64
"""How often random configurations are drawn, and how many at least."""


class LoopStatus(Explained):
    """Whether loops are closed at a configuration; the text says what that means for the user.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.LoopStatus.CLOSED.text
    'every constraint holds'
    """

    CLOSED = "every constraint holds"
    OPEN = "gaps are least here, but not zero: start nearer to where loops are closed, or hold fewer joints"


class Singularity(Explained):
    """Whether independent coordinates determine how a mechanism moves; the text says what that means for the user.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.Singularity.NONE.text
    'independent velocities determine all others'
    """

    NONE = "independent velocities determine all others"
    OUTPUT = (
        "the output moves in fewer directions than elsewhere, whatever the independent velocities are (of the first "
        "kind, serial: a limb is stretched, say); ask for motions along the others"
    )
    ACTUATION = (
        "the mechanism moves while the independent coordinates stay (of the second kind, parallel): the transmission "
        "is not unique; stay away, or choose other independent coordinates here"
    )
    CONFIGURATION = (
        "fewer rows are independent than elsewhere: branches of the mechanism meet, and it moves in more ways, "
        "whatever coordinates are chosen; stay away"
    )


@dataclass(frozen=True, slots=True, eq=False)
class ReducedDynamics(Frozen):
    """Dynamics of independent coordinates, as `reduced_dynamics` returns them; all arrays are read-only.

    With independent velocities ``v_i`` (n) and accelerations ``a_i``: ``v = G v_i``, ``a = G a_i + g`` and
    ``Gᵀ M G a_i + bias = Gᵀ τ``.

    Attributes
    ----------
    independent : tuple of int
        Independent degrees of freedom: ``v_i = v[..., independent]``.
    transmission : (..., nv, n) array
        ``G``: all velocities per independent velocity.
    drift : (..., nv) array
        ``g``: accelerations at ``a_i = 0``.
    mass_matrix : (..., n, n) array
        ``Gᵀ M G``.
    bias : (..., n) array
        Forces along the independent coordinates that keep ``a_i = 0``, gravity, damping and springs included.
    delassus : (..., n, n) array
        Delassus matrix of the independent coordinates, ``(Gᵀ M G)⁻¹``: their accelerations per unit of force along
        them. That of further rows ``J`` is ``J G (Gᵀ M G)⁻¹ Gᵀ Jᵀ``.
    margin : (...) array
        Smallest part of a dependent coordinate's column of the rows that those before it do not span, each row being
        over its size, and over the largest column, or over the robot's length: from 0, where the mechanism moves while
        independent coordinates stay, to 1.
    singularity : (...) array of Singularity
        Which singularity a state is at, if any; the member's ``text`` is the advice.

    Examples
    --------
    >>> import delassus as ds
    >>> arms = ds.mechanisms.star(2, 3, root="fixed")
    >>> loop = ds.Point("branch1_3", "branch2_3")
    >>> found = ds.reduced_dynamics(arms, loop, ds.random_configurations(arms, loop, 0, batch=5))
    >>> found.transmission.shape, found.mass_matrix.shape, found.singularity[0].name
    ((5, 6, 3), (5, 3, 3), 'NONE')
    """

    independent: tuple[int, ...]
    transmission: Array
    drift: Array
    mass_matrix: Array
    bias: Array
    delassus: Array
    margin: Array
    singularity: NDArray[np.object_]


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
        Norm of the gaps of all rows there (m), each over its size as constraints give it, that of rows along unit
        vectors being 1; rotations by twice the sine of half their angle, at the length that the rank is judged by.
    rank : (...) array of int
        Number of independent rows there: ``nv - rank`` velocities are free. Rows that others span but for 1e-5 of them
        are dependent, and those below 1e-5 of the size that constraints give them, at the robot's length, are none.

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


def close_loops(
    tree: Tree,
    constraints: Constraints,
    q: ArrayLike,
    *,
    hold: Iterable[str] = (),
    **given: Unpack[ConstraintArguments],
) -> ClosedLoops:
    """Nearest configuration at which constraints hold, by damped Gauss-Newton steps.

    Each step is the shortest one (rad, m) that closes the gaps to first order, so that from near a closed configuration
    the result is the nearest one but for the square of the distance. Rows may depend on one another. The kernel
    ``ds.compile(tree, constraints, "close_loops", hold=…)`` returns configurations, gaps, 1 where loops are closed, and
    the rank.

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
        Configurations with a status, the gaps that are left, and the rank of the rows; of arrays of JAX or PyTorch, the
        results of the kernel.

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

    def with_status(_: object, found: dict[str, Array]) -> ClosedLoops:
        status = _named(LoopStatus, 1.0 - found["closed"])
        return ClosedLoops(found["q_closed"], status, found["residual"], found["rank"].astype(int))

    return bind(tree, constraints, CLOSE_LOOPS, {"q": q}, AUTO, hold=hold, **given).reported(with_status)


def random_configurations(
    tree: Tree,
    constraints: Constraints = None,
    rng: np.random.Generator | int | None = None,
    batch: int | tuple[int, ...] = (),
) -> Array:
    """Random configurations at which constraints hold, joints within their limits.

    They are those that `close_loops` finds from ``tree.random``, without those that are open or beyond a limit. Mimic
    joints follow the angles of cos-sin joints within half a turn of zero.

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
    check_tree(tree)
    checked, rng, shape = check_constraints(tree, constraints), check_generator(rng), check_batch(batch)
    wanted, found = prod(shape), np.zeros((0, tree.nq))
    one = [joint.nq == 1 for joint in tree.joints]
    at_q, at_v = ([part.start for part, only in zip(parts, one, strict=True) if only]
                  for parts in (tree.q_slices, tree.v_slices))  # fmt: skip
    for _ in range(ROUNDS):
        if len(found) >= wanted:
            return found[:wanted].reshape(*shape, tree.nq)
        start = tree.random(rng, max(wanted - len(found), AT_LEAST))
        for constraint in checked:
            start = constraint.within_a_turn(tree, start)
        closed = close_loops(tree, checked, start)
        angles = closed.q[:, at_q]
        within = np.all((angles >= tree.lower[at_v]) & (angles <= tree.upper[at_v]), axis=-1)
        found = np.concatenate([found, closed.q[within & (closed.status == LoopStatus.CLOSED)]])
    raise ConstraintError(
        "constraints", f"{wanted} configurations at which they hold, joints within their limits",
        f"{len(found)} of {ROUNDS} draws", "Use close_loops from configurations of your own, or wider limits.",
    )  # fmt: skip


def reduced_dynamics(
    tree: Tree,
    constraints: Constraints,
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    independent: Iterable[str] | None = None,
    output: Constraint | Iterable[Constraint] | None = None,
    gravity: ArrayLike | None = None,
    passive: Passive = "model",
    **given: Unpack[ConstraintArguments],
) -> ReducedDynamics:
    """Dynamics of independent coordinates under constraints: transmission, mass matrix, bias and Delassus matrix.

    Parameters
    ----------
    tree : Tree
    constraints : Constraint or iterable of Constraint
        What holds; rows may depend on one another. None stands for ``tree.constraints``.
    q, v : (..., nq) and (..., nv) array_like
        Configurations at which constraints hold, and velocities that keep them, zero by default; leading axes are
        batches and broadcast.
    independent : iterable of str, optional
        Names of joints whose velocities determine all others: motors, say. By default those that actuators act on, and
        what else is independent of them: see ``tree.independent``.
    output : Constraint or iterable of Constraint, optional
        Rows that the mechanism is to move, such as ``ds.Point("tool")``: where they move in fewer directions than
        elsewhere, the singularity is `OUTPUT`.
    gravity, passive : optional
        As `forward_dynamics` takes them.
    rows, placements, payloads : optional
        As `delassus` takes them.

    Returns
    -------
    ReducedDynamics
        Of arrays of JAX or PyTorch, the results of the kernel, whose singularities are numbers in the order of
        `Singularity`, from 0 for none.

    Warns
    -----
    DelassusWarning
        Of states at which numbers overflow, or errors are large because matrices are nearly singular.

    Raises
    ------
    ConstraintError
        As `delassus`; no configuration is found at which constraints hold; joints that do not determine all others.
    UnknownNameError, ConfigurationError
        As `forward_dynamics`.

    References
    ----------
    Gosselin, Angeles, "Singularity analysis of closed-loop kinematic chains", IEEE T-RA 1990 (kinds of singularities);
    Featherstone, "Rigid Body Dynamics Algorithms", 2008, section 8.11.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arms = ds.mechanisms.star(2, 3, root="fixed")
    >>> loop = ds.Point("branch1_3", "branch2_3")
    >>> q = ds.random_configurations(arms, loop, 0)
    >>> G = ds.reduced_dynamics(arms, loop, q).transmission
    >>> bool(np.abs(ds.jacobian(arms, loop, q) @ G).max() < 1e-12)
    True
    """
    options = {"independent": independent, "output": output, "gravity": gravity, "passive": passive, **given}
    v = np.zeros(tree.nv) if v is None and isinstance(tree, Tree) else v
    return bind(tree, constraints, REDUCED_DYNAMICS, {"q": q, "v": v}, AUTO, **options).reported(_with_singularities)


def _with_singularities(bound: Any, found: dict[str, Array]) -> ReducedDynamics:
    bound.warn_of_states(found, known=found["singularity"] > 1)  # where it names what is singular
    G, drift, M, bias, W, margin, kind = (found[o.name] for o in REDUCED_DYNAMICS.outputs)
    return ReducedDynamics(bound.request.independent, G, drift, M, bias, W, margin, _named(Singularity, kind))


def _named(kinds: type[Explained], numbers: Array) -> NDArray[np.object_]:
    """Members (...) by their numbers, in order."""
    return np.asarray(np.array([*kinds], dtype=object)[numbers.astype(int)], dtype=object)
