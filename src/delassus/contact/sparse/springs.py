"""Springs and dampers of blocks without loops, implicit in time: servos of controls, springs and damping of joints.

Each pulls along one row ``w`` of velocities with ``f = … − k w·q − d w·v``. What acts over a step of length ``h`` is

    f − d w·(v⁺ − v) − β k h w·v − α k h w·(v⁺ − v),    β = κ / (1 + κ),    α = (1 + 3 β) / 4,    κ = h² k Σ w² / I,

with the usual inertias ``I`` of what it moves. Stiff ones, ``κ ≫ 1``, have the force of the end of the step, of
``q + h v⁺`` and ``v⁺``; soft ones keep the energy, as an explicit force in semi-implicit steps does: numerical damping
takes a part ``κ²`` of it in a radian. So contacts see the masses ``M + Σ (h d + α h² k) w wᵀ``; what stands still has
the forces of its positions, exactly. Newmark's energy of steps, with the mass ``M + Σ (h d / 2 + h² k β / 4) w wᵀ`` and
the mean of positions, never grows: steps are stable at any ``h``.

In an instant they do nothing: impacts are those of the masses alone.

Source: Newmark 1959; the choice of ``α`` and ``β`` is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from delassus.algorithms.contact import law
from delassus.compiler.jit.compile import compiled
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.cone import step_of_spring
from delassus.contact.sparse.factor import backward, forward
from delassus.contact.sparse.records import PHASE, SEARCH, Bodies, Data, Springs
from delassus.model.tree import Tree
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array


class Pull(NamedTuple):
    """What a spring acts on: its ratio to each degree of freedom; of joints alone its stiffness and damping."""

    ratios: dict[int, float]
    stiffness: float = 0.0
    damping: float = 0.0


def pulls_of_joints(tree: Tree) -> list[Pull]:
    """Springs and damping of joints, one for each degree of freedom that has any."""
    out = list[Pull]()
    for joint, at in zip(tree.joints, tree.v_slices, strict=True):
        for dof, k, d in zip(range(at.start, at.stop), joint.stiffness.tolist(), joint.damping.tolist(), strict=True):
            if k > 0.0 or d > 0.0:
                out.append(Pull({dof: 1.0}, k, d))
    return out


class Line(NamedTuple):
    """A `SpringDamper` of a block: where its row is in ``Q``, and its error; stiffness, damping and usual mobility."""

    block: int
    row: int
    error: int
    stiffness: float
    damping: float
    mobility: float


def springs_of(
    bodies: Bodies, block_of: Indices, place: Indices, passive: Sequence[Pull], lines: Sequence[Line],
    servos: Sequence[Pull],
) -> Springs:  # fmt: skip
    """Memory for springs, ``servos`` the last ones; ``place`` is that of degrees of freedom among those of blocks."""
    along = [Pull(dict.fromkeys(range(*bodies.first[x.block : x.block + 2].tolist()), 0.0)) for x in lines]
    before, n = len(passive), len(passive) + len(lines)
    pulls = [*passive, *along, *servos]
    dofs = np.array([dof if before <= k < n else place[dof] for k, p in enumerate(pulls) for dof in p.ratios], np.int64)
    ratios = np.array([ratio for pull in pulls for ratio in pull.ratios.values()])
    first = np.cumsum([0, *(len(pull.ratios) for pull in pulls)]).astype(np.int64)
    block = block_of[dofs[first[:-1]]] if pulls else np.zeros(0, np.int64)
    sizes = ratios * ratios / bodies.usual[dofs]
    size = np.array([sizes[a:b].sum() for a, b in pairwise(first)])
    stiffness, damping = (np.array([x[k] for x in pulls], float) for k in (1, 2))
    row, error = np.full(len(pulls), -1), np.zeros(len(pulls), np.int64)
    for k, x in enumerate(lines, before):
        row[k], error[k], stiffness[k], damping[k], size[k] = x.row, x.error, x.stiffness, x.damping, x.mobility
    of_controls = (np.arange(len(pulls)) >= n).astype(np.int64)
    memory = np.zeros(len(bodies.at), np.int64), np.zeros(len(bodies.usual))
    return Springs(first, dofs, ratios, block, size, stiffness, damping, of_controls, row, error, *memory)


@compiled
def add_springs(springs: Springs, data: Data, dt: float) -> None:
    """Add to the masses of blocks what springs do to these, and to ``push`` what they do to momenta of the step.

    ``push`` begins with those of the motion without springs' answer, ``h M q̈``. Blocks that springs act on are
    ``stiff``.
    """
    bodies, state, stiff, push = data.bodies, data.state, springs.stiff, springs.push
    is_first = data.progress.step[PHASE] == SEARCH
    for b in range(stiff.size if springs.block.size > 0 else 0):
        stiff[b] = 0
    for s in range(springs.block.size):
        b = springs.block[s]
        if stiff[b] == 0 and bodies.loop_rows[b] == 0 and (springs.stiffness[s] > 0.0 or springs.damping[s] > 0.0):
            stiff[b] = 1
            at, f, m = bodies.at[b], bodies.first[b], bodies.first[b + 1] - bodies.first[b]
            for c in range(m):
                push[f + c] = 0.0
                for r in range(m):
                    push[f + c] += dt * bodies.mass[at + c * m + r] * state.qdd[f + r]
    for s in range(springs.block.size):
        b, k, d = springs.block[s], springs.stiffness[s], springs.damping[s]
        if stiff[b] == 1 and (k > 0.0 or d > 0.0):
            at, f, m = bodies.at[b], bodies.first[b], bodies.first[b + 1] - bodies.first[b]
            begin, end, speed, gained = springs.first[s], springs.first[s + 1], 0.0, 0.0
            for e in range(begin, end):
                c = springs.dofs[e]
                if springs.row[s] >= 0:
                    springs.ratios[e] = bodies.Q[springs.row[s] + e - begin]
                speed += springs.ratios[e] * state.v[c]
                if springs.of_controls[s] == 1 and not is_first:  # controls were those of the start
                    gained += springs.ratios[e] * (state.v[c] - data.progress.start[c])
            added, ahead = step_of_spring(dt, k, d, springs.size[s])
            momentum = ahead * speed + dt * d * gained
            if springs.row[s] >= 0:  # forces of others are known
                momentum += dt * (k * state.loops.errors[springs.error[s]] + d * speed)
            for e in range(begin, end):
                c = springs.dofs[e]
                push[c] -= springs.ratios[e] * momentum
                for g in range(begin, end):
                    bodies.mass[at + (c - f) * m + springs.dofs[g] - f] += added * springs.ratios[e] * springs.ratios[g]


@compiled
def push_stiff(springs: Springs, data: Data) -> None:
    """``target`` of stiff blocks, from the factors of their masses with springs."""
    bodies, state = data.bodies, data.state
    for b in range(springs.stiff.size if springs.block.size > 0 else 0):
        if springs.stiff[b] == 1:
            f, m = bodies.first[b], bodies.first[b + 1] - bodies.first[b]
            forward(bodies.L, bodies.at[b], m, springs.push, f)
            backward(bodies.L, bodies.at[b], m, springs.push, f)
            for c in range(f, f + m):
                state.target[c] = state.v[c] + springs.push[c]


def masses_in_step(springs: Springs, bodies: Bodies, dofs: Indices, dt: float) -> Array | None:
    """Masses (nv, nv) that springs add in a step to joints, in the order of the scene; None where they add none."""
    values, _ = law.step_of_spring(NUMPY, dt, springs.stiffness, springs.damping, springs.size)
    flat, out = added_masses(springs, bodies, np.asarray(values)), np.zeros((len(dofs), len(dofs)))
    if not flat.any():
        return None
    for at, *ends in zip(bodies.at.tolist(), bodies.first[:-1].tolist(), bodies.first[1:].tolist(), strict=True):
        own = dofs[slice(*ends)]
        out[np.ix_(own, own)] = flat[at : at + own.size**2].reshape(own.size, own.size)
    return out


def added_masses(springs: Springs, bodies: Bodies, values: Array) -> Array:
    """``Σ value w wᵀ`` of springs, by their ``values``, as `Bodies.mass` is laid out; none of blocks with loops."""
    out = np.zeros_like(bodies.mass)
    for s in np.flatnonzero((bodies.loop_rows[springs.block] == 0) & (values != 0.0)).tolist():
        own, b = slice(int(springs.first[s]), int(springs.first[s + 1])), int(springs.block[s])
        dofs, m = springs.dofs[own] - bodies.first[b], int(bodies.first[b + 1] - bodies.first[b])
        out[bodies.at[b] + dofs[:, None] * m + dofs] += values[s] * np.outer(springs.ratios[own], springs.ratios[own])
    return out
