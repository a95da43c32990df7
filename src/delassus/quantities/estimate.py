"""Error estimates of requests, and the states at which they are measured.

A relative error, largest difference over largest entry of each result, is estimated as ``ε / rcond``; see
`delassus.accuracy.pivots`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import numpy as np

from delassus.accuracy.closed_loops import closed_states
from delassus.accuracy.pivots import CHOSEN, KNOWN, ByPivots, by_pivots
from delassus.algorithms.inputs import CONFIGURATIONS, generic_values
from delassus.algorithms.loops.cone_program import WITHIN_CONES
from delassus.algorithms.osim.least_squares import JUDGED
from delassus.constraints import Argument
from delassus.constraints.contact import ground_name
from delassus.model.kinematics import generic_configurations
from delassus.model.topology import characteristic_length
from delassus.quantities.request import Request
from delassus.spatial.ops import Scalar
from delassus.spatial.rotations import Array
from delassus.spatial.trace.nodes import Expression
from delassus.spatial.trace.trace_ops import TraceOps

TINY = 1e-30
"""What keeps a quotient from being infinite where nothing is wrong."""

INDEPENDENT = 1e-9
"""Product of relative pivots up to which rows may be dependent: ten times `rank.REGULAR_CONDITION`."""

INDEPENDENT_BY_ROUND_OFF = 100.0
"""The least such product, over round-off."""

STATES = 64
"""Number of states at which errors are measured."""


LONGEST = 300_000
"""Nodes of a trace of `ACCURATE` up to which it is made: it takes a second."""

MEASURED, SAMPLES, NEIGHBOURS = 1 << 14, 4, 1 << 10
"""Numbers of a result up to which the errors of all are measured; of more, those of so many runs of so many neighbours,
which few rows of calls make."""

ITERATED = ("contact problem", WITHIN_CONES, JUDGED)
"""Phases of programs that iterate or judge rows; how far they come, and what is certain, they say themselves."""


def rcond_by_errors(
    asked: Request,
    ops: TraceOps,
    errors: Sequence[Scalar],
    outputs: Sequence[Sequence[int]],
) -> Scalar:
    """Reciprocal condition of a request that has been traced, by estimates of the errors of its solutions.

    What a solution misses, along one direction, is no test of rank: it is zero where pivots are round-off, too, of
    methods and derivatives that take hard rows as independent.
    """
    epsilon = float(np.finfo(asked.error_dtype).eps)
    rcond = epsilon / (reduce(ops.maximum, errors) + TINY)
    for node in sorted(ops.exact):  # dependent rows, which the method leaves out, do not show in what it corrects
        rcond = rcond * Expression(ops, node)
    takes_any = not asked.knows_rank or all(asked.options.soft)
    found = None if takes_any or not asked.quantity.has_status else rcond_by_pivots(asked, ops, outputs)
    least = max(INDEPENDENT, INDEPENDENT_BY_ROUND_OFF * epsilon)
    return rcond if found is None else rcond * ops.less(least, found.independence)


def rcond_by_pivots(asked: Request, ops: TraceOps, outputs: Sequence[Sequence[int]]) -> ByPivots | None:
    """Reciprocal condition by pivots; None if the request divides by nothing. What iterates is judged by its matrix."""
    scaled, start = list[slice](), 0
    for argument in asked.arguments:
        if argument.keyword == "rows":
            scaled.append(slice(start, start + argument.size))
        start += argument.size
    if judged := [nodes for phase, nodes in ops.phases if phase in ITERATED]:
        outputs = judged
    known = CHOSEN if judged else KNOWN
    return by_pivots(
        ops,
        [_sampled(nodes) for nodes in outputs],
        partial(usual_states, asked),
        scaled,
        asked.quantity.has_status,
        asked.options.active,
        known,
    )


def _sampled(nodes: Sequence[int]) -> Sequence[int]:
    """Some of the nodes of a large result, evenly spaced runs of neighbours, for these share what they are made of."""
    if (n := len(nodes)) <= MEASURED:
        return nodes
    starts = [k * (n - NEIGHBOURS) // (SAMPLES - 1) for k in range(SAMPLES)]
    return [x for start in starts for x in nodes[start : start + NEIGHBOURS]]


def usual_states(asked: Request) -> list[Array]:
    """Random values (k, numbers of all arguments) by kind, `STATES` in all: any state, and such that close all loops.

    Configurations, unit rows, what comes with calls. Where loops can be closed, half of the states are of the second
    kind, which comes first: velocities and accelerations asked for keep loops closed.
    """
    random = np.random.default_rng(0)
    parts = [_usual(asked, argument, random) for argument in asked.arguments]
    names, n_closed = [argument.name for argument in asked.arguments], 0
    if (closed := closed_states(asked.tree, asked.constraints)) is not None:
        (q, free), n_closed = closed, STATES // 2
        for argument, part in zip(asked.arguments, parts, strict=True):
            part[: n_closed if argument.keyword == "targets" else 0] = 0.0
        for k in range(n_closed):
            parts[names.index("q")][k] = q[k % len(q)]
            if "v" in names:
                parts[names.index("v")][k] = free[k % len(q)] @ parts[names.index("v")][k]
    every = np.concatenate([np.zeros((STATES, 0)), *(x.reshape(STATES, -1) for x in parts)], axis=1)
    return [x for x in (every[:n_closed], every[n_closed:]) if len(x)]


def _usual(asked: Request, argument: Argument, random: np.random.Generator) -> Array:
    name, shape = argument.name, (STATES, *argument.shape)
    if name in CONFIGURATIONS:
        return generic_configurations(asked.tree, random, (STATES,))
    if argument.flags:  # few and many at once
        return (random.random(shape) < random.uniform(0.0, 1.0, (STATES, 1))).astype(float)
    gains = "kp", "kd", "posture_kp", "posture_kd"
    if (argument.keyword or name) in ("dt", "damping", "impulses", "weights", *gains):
        return np.asarray(random.uniform(1e-3, 1e-2, shape))
    if argument.keyword == "compliance" or name == "d":
        return np.asarray(10.0 ** random.uniform(-4.0 if name == "d" else -13.0, 1.0, shape))
    if name in ("friction", "restitution", "smoothing"):
        return np.asarray(random.uniform(0.0, 1.0, shape))
    length = characteristic_length(asked.tree)
    if argument.keyword == "payloads":
        return _payloads(random, asked.tree.mass / max(asked.tree.n_links, 1), length)
    x = generic_values(argument, length, random, (STATES,))
    if name.startswith(ground_name(0)[:-1]):  # heights, and normals of slopes
        x = x * [0.2, 0.3, 0.3, 0.0] + [0.0, 0.0, 0.0, 1.0]
        x[..., 1:] /= np.linalg.norm(x[..., 1:], axis=-1, keepdims=True)
    return x


def _payloads(random: np.random.Generator, mass: float, length: float) -> Array:
    """Inertias (STATES, 10) of four points each, of masses and at distances as those of links are."""
    m, p = random.uniform(0.0, 0.5 * mass, (STATES, 4, 1)), random.normal(0.0, 0.5 * length, (STATES, 4, 3))
    x, y, z = np.moveaxis(p, -1, 0)
    moments = np.stack([y * y + z * z, -x * y, x * x + z * z, -x * z, -y * z, x * x + y * y], axis=-1)
    return np.concatenate([m.sum(axis=1), (m * p).sum(axis=1), (m * moments).sum(axis=1)], axis=-1)


def is_long(asked: Request) -> bool:
    """Whether a trace of `ACCURATE` has more than `LONGEST` nodes: ``n d² + m² d + m³``, as loops fill its matrices."""
    tree, m = asked.tree, sum(c.size for c in asked.constraints)
    d = max((sum(len(tree.joints[j].motion_axes) for j in tree.support(i)) for i in range(tree.n_links)), default=0)
    return bool(tree.nv * d**2 + m**2 * d + m**3 > LONGEST)
