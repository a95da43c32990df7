"""Springs and dampers of blocks, implicit in time: servos of controls, springs and damping of joints.

Each pulls along one row ``w`` of velocities with ``f = … − k w·q − d w·v``. What acts over a step of length ``h`` is

    f − d w·(v⁺ − v) − β k h w·v − α k h w·(v⁺ − v),    β = κ / (1 + κ),    α = (1 + 3 β) / 4,    κ = h² k Σ w² / I,

with the usual inertias ``I`` of what it moves. Stiff ones, ``κ ≫ 1``, have the force of the end of the step, of
``q + h v⁺`` and ``v⁺``; soft ones keep the energy, as an explicit force in semi-implicit steps does: numerical damping
takes a part ``κ²`` of it in a radian. So contacts see the masses ``M + Σ (h d + α h² k) w wᵀ``; what stands still has
the forces of its positions, exactly. Newmark's energy of steps, with the mass ``M + Σ (h d / 2 + h² k β / 4) w wᵀ`` and
the mean of positions, never grows: steps are stable at any ``h``.

In an instant they do nothing: impacts are those of the masses alone.

Blocks with loops move without these forces first (`smooth_motion`), to the velocity ``v_s``. Springs act on the whole
step by the geometry of its start, as contacts do, with ``v_s − v`` gained without them, and loops take their part.
Where no impulses act, the block moves once more: loops stay closed, and products of velocities are those of its own
motion. A part ``φ = ρ / (1 + ρ)``, ``ρ = Σ (κ + h d Σ w² / I)``, of what springs do to velocities is there from the
start, and the rest is done by forces that are held over the step. So soft ones have the force of the mean position,
for which ``(1 − φ) h² k w·v / 2`` comes to what acts; stiff ones move positions by ``h v⁺``, as in trees. Of springs
and damping of joints in loops those are implicit that sub-steps would have to follow (`law.STIFF`).

Source: Newmark 1959; the choice of ``α`` and ``β`` is ours.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from delassus.algorithms.contact import law
from delassus.compiler.jit.compile import compiled
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.loops import move_loop, remove_loop_rows
from delassus.contact.sparse.records import IMPACTS, Data, LoopMotion, SpringMemory, SpringTable, Stretches
from delassus.model.kinematics import usual_inertias
from delassus.model.tree import Tree
from delassus.solvers.islands.cone import step_of_spring
from delassus.solvers.islands.factor import backward, forward
from delassus.solvers.islands.records import Bodies
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array


class Pull(NamedTuple):
    """What a spring acts on: its ratio to each degree of freedom; of joints alone its stiffness and damping.

    Of joints in loops also the place of its coordinate, and the position there without force.
    """

    ratios: dict[int, float]
    stiffness: float = 0.0
    damping: float = 0.0
    coordinate: int = -1
    rest: float = 0.0


def stiff_joints(tree: Tree, dt: float) -> list[int]:
    """Joints whose springs and damping sub-steps of a time step would have to follow; see `law.STIFF`."""
    usual, out = usual_inertias(tree), list[int]()
    for i, (joint, at) in enumerate(zip(tree.joints, tree.v_slices, strict=True)):
        rates = dt * np.sqrt(joint.stiffness / usual[at]) + dt * joint.damping / usual[at]
        if (joint.nq == joint.nv or not joint.stiffness.any()) and rates.max(initial=0.0) > law.STIFF:
            out.append(i)
    return out


def without_springs(tree: Tree, joints: Sequence[int]) -> Tree:
    """The tree without springs and damping of some joints."""
    own = list(tree.joints)
    for i in joints:
        none = np.zeros(own[i].nv)
        own[i] = replace(own[i], stiffness=none, damping=none)
    return replace(tree, joints=tuple(own)) if joints else tree


def pulls_of_joints(tree: Tree, tied: Collection[int], dt: float) -> list[Pull]:
    """Springs and damping of joints, one for each degree of freedom that has any; stiff ones of links that are tied."""
    out, stiff = list[Pull](), stiff_joints(tree, dt) if tied else []
    for i, (joint, at) in enumerate(zip(tree.joints, tree.v_slices, strict=True)):
        for e, (k, d) in enumerate(zip(joint.stiffness.tolist(), joint.damping.tolist(), strict=True)):
            ratios = {at.start + e: 1.0}
            if (k > 0.0 or d > 0.0) and i not in tied:
                out.append(Pull(ratios, k, d))
            elif (k > 0.0 or d > 0.0) and i in stiff:
                coordinate = tree.q_slices[i].start + e if k > 0.0 else -1
                out.append(Pull(ratios, k, d, coordinate, float(joint.rest_position[e])))
    return out


class Line(NamedTuple):
    """A spring of a block that is a constraint: where its row is in ``Q``, and its error; numbers of `springs`.

    One that has limits acts beyond them alone.
    """

    block: int
    row: int
    error: int
    stiffness: float
    damping: float
    mobility: float
    has_limits: bool


def springs_of(
    bodies: Bodies, block_of: Indices, place: Indices, in_q: Indices, passive: Sequence[Pull], lines: Sequence[Line],
    servos: Sequence[Pull],
) -> SpringTable:  # fmt: skip
    """Memory for springs, ``servos`` the last ones; ``place`` is that of degrees of freedom among those of blocks.

    ``in_q`` is that of coordinates.
    """
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
    beyond = np.zeros((len(pulls), 2))
    for k, x in enumerate(lines, before):
        row[k], error[k], stiffness[k], damping[k], size[k] = x.row, x.error, x.stiffness, x.damping, x.mobility
        beyond[k] = (x.stiffness, x.damping) if x.has_limits else (0.0, 0.0)
    of_controls = (np.arange(len(pulls)) >= n).astype(np.int64)
    coordinate = np.array([in_q[p.coordinate] if p.coordinate >= 0 else -1 for p in pulls], np.int64)
    at = Stretches(row, error, coordinate, np.array([p.rest for p in pulls]), beyond)
    memory = SpringMemory(np.zeros(len(bodies.at), np.int64), *np.zeros((2, len(bodies.usual))))
    return SpringTable(first, dofs, ratios, block, size, stiffness, damping, of_controls, at, memory)


@compiled
def add_springs(springs: SpringTable, data: Data, dt: float) -> None:
    """Add to the masses of blocks what springs do to these, and to ``push`` what they do to momenta of the step.

    ``push`` begins with those of the motion without springs' answer, ``h M q̈``; that of blocks with loops is left to
    `pull_loops`. Blocks that springs act on are ``stiff``.
    """
    bodies, state, stiff, push = data.bodies, data.state, springs.memory.stiff, springs.memory.push
    switch_limits(springs, data)
    for b in range(stiff.size if springs.block.size > 0 else 0):
        stiff[b] = 0
    for s in range(springs.block.size):
        b = springs.block[s]
        if stiff[b] == 0 and (springs.stiffness[s] > 0.0 or springs.damping[s] > 0.0):
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
            begin, end = springs.first[s], springs.first[s + 1]
            if springs.at.row[s] >= 0:
                for e in range(begin, end):
                    springs.ratios[e] = bodies.Q[springs.at.row[s] + e - begin]
            added, _ = step_of_spring(dt, k, d, springs.size[s])
            momentum = momentum_of(springs, data, s, dt) if bodies.loop_rows[b] == 0 else 0.0
            for e in range(begin, end):
                c = springs.dofs[e]
                push[c] -= springs.ratios[e] * momentum
                for g in range(begin, end):
                    bodies.mass[at + (c - f) * m + springs.dofs[g] - f] += added * springs.ratios[e] * springs.ratios[g]


@compiled
def switch_limits(springs: SpringTable, data: Data) -> None:
    """Give springs that have limits their stiffness and damping where these push back, else none."""
    for s in range(springs.block.size):
        k, d = springs.at.beyond[s, 0], springs.at.beyond[s, 1]
        if k > 0.0 or d > 0.0:
            x, u, begin = data.state.loops.errors[springs.at.error[s]], 0.0, springs.first[s]
            for e in range(begin, springs.first[s + 1]):
                u += data.bodies.Q[springs.at.row[s] + e - begin] * data.state.v[springs.dofs[e]]
            acts = 1.0 if x * (k * x + d * u) > 0.0 else 0.0
            springs.stiffness[s], springs.damping[s] = acts * k, acts * d


@compiled
def momentum_of(springs: SpringTable, data: Data, s: int, dt: float) -> float:
    """Momentum that a spring takes in a step along its row, with velocities of the start.

    Without its force at the start where that is one of ``qdd``, and without that of controls.
    """
    state, k, d, speed, gained = data.state, springs.stiffness[s], springs.damping[s], 0.0, 0.0
    is_first = data.progress.step[IMPACTS] == 0
    for e in range(springs.first[s], springs.first[s + 1]):
        c = springs.dofs[e]
        speed += springs.ratios[e] * state.v[c]
        if springs.of_controls[s] == 1 and not is_first:  # controls were those of the start
            gained += springs.ratios[e] * (state.v[c] - data.progress.start[c])
    _, ahead = step_of_spring(dt, k, d, springs.size[s])
    momentum: float = ahead * speed + dt * d * gained
    if springs.at.row[s] >= 0:  # forces of others are known
        momentum += dt * (k * state.loops.errors[springs.at.error[s]] + d * speed)
    elif data.bodies.loop_rows[springs.block[s]] > 0 and springs.of_controls[s] == 0:
        stretch = state.q[springs.at.coordinate[s]] - springs.at.rest[s] if springs.at.coordinate[s] >= 0 else 0.0
        momentum += dt * (k * stretch + d * speed)
    return momentum


@compiled
def push_stiff(springs: SpringTable, data: Data) -> None:
    """``target`` of stiff blocks without loops, from the factors of their masses with springs."""
    bodies, state = data.bodies, data.state
    for b in range(springs.memory.stiff.size if springs.block.size > 0 else 0):
        if springs.memory.stiff[b] == 1 and bodies.loop_rows[b] == 0:
            f, m = bodies.first[b], bodies.first[b + 1] - bodies.first[b]
            forward(bodies.L, bodies.at[b], m, springs.memory.push, f)
            backward(bodies.L, bodies.at[b], m, springs.memory.push, f)
            for c in range(f, f + m):
                state.target[c] = state.v[c] + springs.memory.push[c]


@compiled
def force_loops(springs: SpringTable, data: Data, loops: Indices, motion: LoopMotion) -> None:
    """Velocities and ``forces`` of blocks with loops, without those of joints that servos act on."""
    for k in range(loops.shape[0]):
        b = loops[k, 0]
        for c in range(data.bodies.first[b], data.bodies.first[b + 1]):
            motion.start[c], motion.forces[c] = data.state.v[c], data.state.tau[c]
    for s in range(springs.block.size if loops.shape[0] > 0 else 0):
        acts = springs.of_controls[s] == 1 and (springs.stiffness[s] > 0.0 or springs.damping[s] > 0.0)
        for e in range(springs.first[s] if acts else springs.first[s + 1], springs.first[s + 1]):
            if springs.ratios[e] != 0.0:
                motion.forces[springs.dofs[e]] = 0.0


@compiled
def pull_loops(springs: SpringTable, data: Data, loop: Indices, motion: LoopMotion, dt: float, x: Array) -> None:
    """Add to the smooth motion of a block with loops what springs do to it; ``x`` is memory.

    ``start`` and ``forces`` become those with springs' in a step without impulses.
    """
    bodies, state, push, pull, b = data.bodies, data.state, springs.memory.push, springs.memory.pull, loop[0]
    f = bodies.first[b]
    m = bodies.first[b + 1] - f
    for c in range(f, f + m):
        push[c] = pull[c] = dt * (state.tau[c] - motion.forces[c])
    at_once = part_at_once(springs, b, dt)
    for s in range(springs.block.size):
        k, d = springs.stiffness[s], springs.damping[s]
        if springs.block[s] == b and (k > 0.0 or d > 0.0):
            speed, gained = 0.0, 0.0
            for e in range(springs.first[s], springs.first[s + 1]):
                c = springs.dofs[e]
                speed += springs.ratios[e] * state.v[c]
                gained += springs.ratios[e] * (state.loops.reached[c] - state.v[c])
            added, _ = step_of_spring(dt, k, d, springs.size[s])
            momentum = momentum_of(springs, data, s, dt) + added * gained
            for e in range(springs.first[s], springs.first[s + 1]):
                push[springs.dofs[e]] -= springs.ratios[e] * momentum
                pull[springs.dofs[e]] -= springs.ratios[e] * (momentum + 0.5 * (1.0 - at_once) * dt * dt * k * speed)
    give_way(bodies, loop, pull, x)
    for c in range(m):
        motion.start[f + c] += at_once * x[c]
    for s in range(springs.block.size):
        k, d = springs.stiffness[s], springs.damping[s]
        if springs.block[s] == b and (k > 0.0 or d > 0.0):
            gained = 0.0
            for e in range(springs.first[s], springs.first[s + 1]):
                gained += springs.ratios[e] * x[springs.dofs[e] - f]
            added, _ = step_of_spring(dt, k, d, springs.size[s])
            for e in range(springs.first[s], springs.first[s + 1]):
                pull[springs.dofs[e]] -= springs.ratios[e] * added * gained
    give_way(bodies, loop, push, x)
    for c in range(m):
        motion.forces[f + c] += (1.0 - at_once) * pull[f + c] / dt
        state.loops.reached[f + c] += x[c]
        state.loops.moved[f + c] += 0.5 * dt * x[c]


@compiled
def move_stiff_loops(springs: SpringTable, loops: Indices, motion: LoopMotion) -> bool:
    """Smooth motion of blocks with loops that springs act on and no impulses; whether it is resolved."""
    resolved = True
    for k in range(loops.shape[0]):
        if springs.block.size > 0 and motion.pushed[k] == 0 and springs.memory.stiff[loops[k, 0]] == 1:
            resolved = move_loop(motion, k) and resolved
    return resolved


@compiled
def part_at_once(springs: SpringTable, b: int, dt: float) -> float:
    """Part of what springs do to a block with loops that acts at the start of its motion."""
    rate = 0.0
    for s in range(springs.block.size):
        if springs.block[s] == b:
            rate += springs.size[s] * dt * (springs.damping[s] + dt * springs.stiffness[s])
    return rate / (1.0 + rate)


@compiled
def give_way(bodies: Bodies, loop: Indices, momentum: Array, x: Array) -> None:
    """Velocity ``x`` of a block that loops leave of a momentum."""
    b = loop[0]
    at, f = bodies.at[b], bodies.first[b]
    m = bodies.first[b + 1] - f
    for c in range(m):
        x[c] = momentum[f + c]
    forward(bodies.L, at, m, x, 0)
    remove_loop_rows(bodies.Q, loop[2], loop[1], m, x)
    backward(bodies.L, at, m, x, 0)


def masses_in_step(springs: SpringTable, bodies: Bodies, dofs: Indices, dt: float) -> Array | None:
    """Masses (nv, nv) that springs add in a step to joints, in the order of the scene; None where they add none."""
    values, _ = law.step_of_spring(NUMPY, dt, springs.stiffness, springs.damping, springs.size)
    flat, out = added_masses(springs, bodies, np.asarray(values)), np.zeros((len(dofs), len(dofs)))
    if not flat.any():
        return None
    for at, *ends in zip(bodies.at.tolist(), bodies.first[:-1].tolist(), bodies.first[1:].tolist(), strict=True):
        own = dofs[slice(*ends)]
        out[np.ix_(own, own)] = flat[at : at + own.size**2].reshape(own.size, own.size)
    return out


def added_masses(springs: SpringTable, bodies: Bodies, values: Array) -> Array:
    """``Σ value w wᵀ`` of springs, by their ``values``, as `Bodies.mass` is laid out."""
    out = np.zeros_like(bodies.mass)
    for s in np.flatnonzero(values != 0.0).tolist():
        own, b = slice(int(springs.first[s]), int(springs.first[s + 1])), int(springs.block[s])
        dofs, m = springs.dofs[own] - bodies.first[b], int(bodies.first[b + 1] - bodies.first[b])
        out[bodies.at[b] + dofs[:, None] * m + dofs] += values[s] * np.outer(springs.ratios[own], springs.ratios[own])
    return out
