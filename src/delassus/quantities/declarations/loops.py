"""Closed loops, configurations that close them and the dynamics of independent coordinates: declarations."""

from __future__ import annotations

from typing import Any

from delassus.accuracy.closed_loops import usual_output
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.loops import independent as of_independent
from delassus.algorithms.loops.closing import close_loops as closing
from delassus.algorithms.loops.closing import closed_within
from delassus.algorithms.problem import Problem
from delassus.quantities.bound_request import BoundRequest, stacked
from delassus.quantities.quantity import Output, Quantity
from delassus.spatial.ops import Matrix, Scalar


def at_rest(bound: BoundRequest, q: Any = None) -> DynamicsProblem:
    """The robot at rest at a configuration (the argument if None), without gravity."""
    return DynamicsProblem(bound.problem(q), None, None, gravity=bound.ops.zeros(3, 1))


def _close_loops(bound: BoundRequest) -> list[Matrix]:
    tree = bound.tree
    held = [k for name in bound.request.options.hold for k in range(*tree.v_index(name).indices(tree.nv))]
    q, gap = closing(lambda q: at_rest(bound, q), bound.entries("q"), held)
    closed = at_rest(bound, q)
    is_closed = bound.ops.less(gap, closed_within(closed))
    return [
        stacked(bound, q),
        *(bound.ops.matrix([[x]]) for x in (gap, is_closed, of_independent.rank(closed.problem))),
    ]


def _reduced_dynamics(bound: BoundRequest) -> list[Matrix]:
    ops, independent, motion = bound.ops, bound.request.independent, bound.unforced()
    found = of_independent.transmission(motion, independent)
    reduced = of_independent.reduced_dynamics(bound.motion(), found)
    can_move, rank_is_lost = of_independent.singular(motion, found)
    kind: Scalar = 0.0
    if output := bound.request.options.output:
        part, usual = usual_output(bound.tree, bound.constraints, independent, output)
        of_output = Problem(ops, bound.tree, output, motion.problem.q)
        left = of_independent.rank(of_output, of_independent.moved_rows(of_output, found.G, independent), part)
        kind = ops.less(left, usual)
    kind = ops.select(can_move, 2.0 + rank_is_lost, kind)  # the order of Singularity
    numbers = (ops.matrix([[x]]) for x in (found.margin, kind))
    return [found.G, found.drift, reduced.M, reduced.bias, reduced.delassus, *numbers]


CLOSE_LOOPS = Quantity(
    "close_loops",
    "Nearest configuration at which constraints hold",
    ("q",),
    (
        Output("q_closed", ("nq",), "configuration at which constraints hold, or of the smallest gaps on the way"),
        Output("residual", (), "norm of the gaps of all rows there in m, turns at a length of the robot"),
        Output("closed", (), "1 where every constraint holds, else 0"),
        Output("rank", (), "number of independent rows there"),
    ),
    _close_loops,
    options=frozenset({"hold"}),
    iterates=True,
)
REDUCED_DYNAMICS = Quantity(
    "reduced_dynamics",
    "Dynamics of independent coordinates",
    ("q", "v"),
    (
        Output("G", ("nv", "independent"), "all velocities per independent velocity"),
        Output("drift", ("nv",), "accelerations where those of independent coordinates are zero, rad/s^2 and m/s^2"),
        Output("M", ("independent", "independent"), "mass matrix G' M G of independent coordinates", symmetric=True),
        Output("bias", ("independent",), "forces along independent coordinates that keep their velocities, N m and N"),
        Output("W", ("independent", "independent"), "Delassus matrix (G' M G)^-1 of these", symmetric=True),
        Output("margin", (), "smallest pivot of dependent coordinates, of 1; 0 where these can move alone"),
        Output("singularity", (), "0 of none, 1 of the output, 2 of actuation, 3 of the configuration"),
    ),
    _reduced_dynamics,
    options=frozenset({"independent", "output", "gravity", "passive"}),
    inverts_mass=True,
    springs="forces",
)
