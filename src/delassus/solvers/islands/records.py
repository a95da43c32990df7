"""What solvers of islands work on: blocks of masses, row groups on them, and memory."""

from __future__ import annotations

from typing import NamedTuple

from delassus.solvers.islands.factor import MAX_PARTS, BlockGraph
from delassus.solvers.linear import Indices
from delassus.spatial.rotations import Array


class Bodies(NamedTuple):
    """Blocks of masses. Block *i* has the degrees of freedom ``first[i]`` to ``first[i + 1]``.

    ``turns`` says of each whether it is a rotation, ``usual`` what its inertia may be at most. The mass matrix of a
    block begins at ``at[i]`` in ``mass``. There in ``M`` is the mass matrix that contacts see, to which loops have
    added theirs, and in ``L`` the Cholesky factor of that without loops, by columns, with the reciprocals of its
    diagonal; in ``inverse`` is the inverse of that of blocks without loops. The first blocks are free bodies. Block *i*
    has ``loop_rows[i]`` rows of loops, which begin at ``loops_at[i]`` in ``Q``: Jacobians, then orthonormal rows; see
    `close_loops`. ``alone[i]`` is where coordinates begin in ``q`` of a body on its own (`Tree.is_free_body`), damped
    or not, else −1.
    """

    first: Indices
    turns: Indices
    usual: Array
    at: Indices
    mass: Array
    M: Array
    L: Array
    inverse: Array
    loop_rows: Indices
    loops_at: Indices
    Q: Array
    alone: Indices


class RowLaws(NamedTuple):
    """Laws of row groups: velocities without motion, friction, and what each sees alone.

    Of joints ``d[i]`` begins with the limits of velocities. ``W[i]`` is the group's own block of ``J M⁻¹ Jᵀ``, ``w[i]``
    the mean of its diagonal, ``R[i]`` a compliance, and ``prepared`` what `point_of` takes. Residuals count times
    ``unit[i]``, a length of hinges. Part of ``d`` is ``turning``; see `delassus.contact.sparse.turning`.
    ``partner`` is that of patches and spins, ``patch`` memory of the former.
    """

    W: Array
    prepared: Array
    d: Array
    turning: Array
    mu: Array
    friction_offset: Array
    w: Array
    R: Array
    unit: Array
    partner: Indices
    patch: Array


class RowMemory(NamedTuple):
    """Memory of solvers for row groups: derivatives ``D`` and steps ``q`` of Newton's method, iterates of sweeps."""

    D: Array
    q: Array
    trial: Array
    g: Array
    F: Array


class RowGroups(NamedTuple):
    """Groups of rows.

    There is one for each contact, for each joint with limits or friction, and behind these one for each contact with
    torsional or rolling friction. Group *i* has the ``kind[i]`` of `cone`, is on blocks ``a[i]`` and ``b[i]`` (−1:
    none) with Jacobians that begin at ``at_a[i]`` and ``at_b[i]`` in ``J``, row by row. ``Y = J M⁻¹`` is laid out as
    ``J`` is. Of its impulse ``r[i]``, ``guess[i]`` is where the next solution starts, and ``wrong[i]`` the residual
    (m/s).
    """

    kind: Indices
    a: Indices
    b: Indices
    at_a: Indices
    at_b: Indices
    J: Array
    Y: Array
    law: RowLaws
    r: Array
    guess: Array
    wrong: Array
    memory: RowMemory


class Islands(NamedTuple):
    """See `find_islands`; ``contact`` is that of each row group, or −1.

    Of each island, ``lost`` is the energy (J) lost in compression, ``report`` the residual (m/s) and the numbers of
    sweeps and of factorisations, ``wanted`` the displacement (m, rad) that takes back errors of loops.
    """

    root: Indices
    nodes: Indices
    node_ends: Indices
    members: Indices
    member_ends: Indices
    island: Indices
    contact: Indices
    lost: Array
    report: Array
    wanted: Array


class Work(NamedTuple):
    """Memory for one island at a time; ``part`` of it is an island of its own."""

    graph: BlockGraph
    part: Islands
    V: Array
    K: Array
    p: Array
    x: Array
    trial: Array
    start_part: Array
    direction: Array
    best: Array
    best_r: Array


class StepOptions(NamedTuple):
    """Options of `Simulator`; ``touching`` is the gap up to which contacts are closed; ``sleep`` 0 is none.

    ``speed`` (m/s) is what residuals are small against, of islands `SPEED` times the tolerance.
    ``asks`` is the address of what makes impulses in place of islands (0: none), ``max_parts`` the most parts to try.
    """

    dt: float
    resting: float
    penetration: float
    correction: float
    tolerance: float
    sleep: float
    max_iterations: int
    touching: float = 0.0
    asks: int = 0
    max_parts: int = MAX_PARTS
    speed: float = 1.0
