"""How wrong a solution of forward dynamics is: what it misses, and by how much that corrects it.

``r = τ − (M q̈ + c − Jᵀ f)`` by one pass of inverse dynamics, ``s = γ − J q̈ − R f`` by the accelerations of the links.
The correction ``δ`` solves the same system for ``r`` and ``s``: by the same method and so by the same factors, the
robot being at rest. It is the error that the method has made, up to a small factor. Round-off of the coefficients
themselves (positions, inertias, rows) may cancel in ``r`` and ``s``. It changes the acceleration of each link, and the
force that it takes, by parts of the terms that these are sums of, and what it hands on to its neighbours with them
(running error analysis): with ``t`` what that makes of ``r`` and ``s``, signs being random, the solution ``y`` for
``t`` is how far relative changes of coefficients move the solution (Skeel's condition). Changes at each joint on its
own, as large as the forces that it transmits, would move long chains far more: no position has so many errors.
Cost O(n + m) beside two further right-hand sides.

Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, sections 3.3, 7.2 and 12.1.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple

from delassus.algorithms.dynamics.constraint_acceleration import right_hand_sides, row_accelerations
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import EndEffector
from delassus.algorithms.rnea import accelerations, to_joints
from delassus.model.tree import WORLD
from delassus.spatial.joints import Joint
from delassus.spatial.motion import ANGULAR, LINEAR, column, from_entries, scaled
from delassus.spatial.ops import Matrix, Ops, Scalar

CORRECTION = 2.0
"""Weight of ``δ`` in the estimate: errors are seldom more (``delassus bench errors``)."""

CONDITION = 0.2
"""Weight of ``y`` times round-off in the estimate."""

UNEVEN = (1.0, 2.0)
"""Range of factors of changes of rows: without, multiples of a row change together, as if their forces were unique."""

PARTS = (LINEAR, ANGULAR)

Sizes = tuple[Scalar, Scalar]
"""Of a linear and of an angular part."""


class Change(NamedTuple):
    """What a derivative is that of: a motion, and whether it changes with velocities, whose products alone it has then.

    Otherwise positions change, by 1 rad or 1 m.
    """

    of: DynamicsProblem
    with_velocity: bool

    def factor(self, ops: Ops) -> Scalar:
        """By what terms of the motion become those of its change: ``1 / |v|`` of velocity products."""
        if not self.with_velocity:
            return 1.0
        fastest = reduce(ops.maximum, [x for v in self.of.v for x in _sizes(ops, v)])
        return _part(ops, 1.0, fastest)


def relative_error(
    motion: DynamicsProblem,
    method: Callable[[DynamicsProblem], DynamicsSolution],
    solution: DynamicsSolution,
    round_off: float,
    negligible: float,
    change: Change | None = None,
    of_forces: bool = True,
) -> Scalar:
    """Estimate of the largest error of ``q̈`` and, ``of_forces``, of ``f``, each by its largest entry.

    ``round_off`` is the relative spacing of the numbers. Where all entries are below this part, ``negligible``, of what
    their terms would make if they did not cancel one another, they count as zero, and errors are by that part. Of
    derivatives the terms are those of what changes as well, of the ``change``.
    """
    ops = motion.ops
    terms = Terms(motion, DynamicsSolution(ops.opaque(solution.qdd), ops.opaque(solution.forces)))
    delta, y = (method(motion.at_rest(*of)) for of in (terms.missed, terms.sizes))
    found: Scalar = 0.0
    for missed, sizes, least in zip(terms.missed, terms.sizes, (0.0, negligible * terms.usual_rows), strict=True):
        if ops.shape(missed)[0]:  # a method that cannot correct its solution says nothing of its error
            missing, size = (reduce(ops.maximum, _sizes(ops, a)) for a in (missed, sizes))
            found = ops.maximum(found, _part(ops, missing, size + least))
    usual = [*terms.usual]
    if change is not None:
        more, factor = Usual(change.of).usual, change.factor(ops)
        usual = [[x + factor * z for x, z in zip(*pair, strict=True)] for pair in zip(usual, more, strict=True)]
    parts = (
        (solution.qdd, delta.qdd, y.qdd, usual[0]),
        (solution.forces, delta.forces, y.forces, usual[1]),
    )
    for *columns, each in parts if of_forces else parts[:1]:
        if each:
            x, left, moved = (reduce(ops.maximum, _sizes(ops, a)) for a in columns)
            pairs = zip(_sizes(ops, columns[0]), each, strict=True)
            is_zero = 1.0 - reduce(ops.maximum, [ops.less(negligible * z, y) for y, z in pairs])
            size = ops.maximum(x, is_zero * (negligible * reduce(ops.maximum, each)))
            found = ops.maximum(found, _part(ops, CORRECTION * left + (CONDITION * round_off) * moved, size))
    return found


class Usual:
    """What what acts on the robot makes of ``q̈`` and ``f`` if nothing cancels and nothing else moves: sizes.

    Attributes
    ----------
    usual : pair of lists of scalars
        Of each entry of ``q̈`` and of ``f``.
    """

    def __init__(self, motion: DynamicsProblem) -> None:
        self._motion = motion
        self._levers = [_total(motion.ops, X.position()) for X in motion.problem.X]
        self._inertias: dict[int, tuple[Sizes, Sizes]] = {}
        _, forces = self._sums()
        self.usual = self._moving_alone(forces), self._balanced_by_rows(forces)

    def _sums(self, qdd: Sequence[Matrix] | None = None) -> tuple[list[Sizes], list[Sizes]]:
        """Sums of the sizes of linear and angular accelerations of links, and of the forces that joints transmit."""
        ops, motion = self._motion.ops, self._motion
        tree, levers, a, f = motion.tree, self._levers, list[Sizes](), list[Sizes]()

        # root → leaves: accelerations
        for i, p in enumerate(tree.parents):
            own = motion.c[i] if qdd is None else ops.hstack([motion.along_joint(i, qdd[i]), motion.c[i]])
            linear, angular = (_total(ops, motion.gravity), 0.0) if p == WORLD else a[p]
            x, y = _parts(ops, own)
            a.append((linear + levers[i] * angular + x, angular + y))

        # leaves → root: forces and moments, those of velocity products V ×* H V by their terms
        for i in range(tree.n_links):
            x, y = _parts(ops, motion.p[i])
            (m, h), (_, moment) = self._sizes_of_inertia(i)
            v, w = _parts(ops, motion.V[i])
            force, couple = x + w * (m * v + h * w), y + w * (h * v + moment * w) + v * (h * w)
            f.append((m * a[i][0] + h * a[i][1] + force, h * a[i][0] + moment * a[i][1] + couple))
        for i in tree.leaves_to_root():
            if (p := tree.parents[i]) != WORLD:
                f[p] = f[p][0] + f[i][0], f[p][1] + f[i][1] + levers[i] * f[i][0]
        return a, f

    def _sizes_of_inertia(self, i: int) -> tuple[Sizes, Sizes]:
        """Parts of the columns that linear accelerations of a link meet, and angular ones."""
        if i not in self._inertias:
            ops, H = self._motion.ops, self._motion.problem.inertias[i]
            first, second = (_parts(ops, ops.take(H, None, part)) for part in PARTS)
            self._inertias[i] = first, second
        return self._inertias[i]

    def _at_joints(
        self, f: Sequence[Sizes], qdd: Sequence[Matrix] | None, given: Sequence[Sequence[Matrix]]
    ) -> list[Scalar]:
        """Sums of the sizes of forces at each joint."""
        joints = zip(self._motion.tree.joints, self._on_each_joint(qdd, given), strict=True)
        own = [
            [_along(joint, f[i]), *(_by_part(joint, sizes) for sizes in parts)]
            for i, (joint, parts) in enumerate(joints)
        ]
        return [sum(x) for parts in own for x in zip(*parts, strict=True)]

    def _on_each_joint(
        self, qdd: Sequence[Matrix] | None, given: Sequence[Sequence[Matrix]]
    ) -> list[list[list[Scalar]]]:
        """Sizes of the forces that act on each joint itself, its armature's among them."""
        ops, out = self._motion.ops, list[list[list[Scalar]]]()
        for i, joint in enumerate(self._motion.tree.joints):
            out.append([_sizes(ops, x) for x in given[i]])
            if qdd is not None:
                out[i].append([float(r) * x for r, x in zip(joint.armature, _sizes(ops, qdd[i]), strict=True)])
        return out

    def _moving_alone(self, f: Sequence[Sizes]) -> list[Scalar]:
        """Acceleration of each joint under these forces, if what it carries is rigid; at least that."""
        tree, levers = self._motion.tree, self._levers
        parts = map(self._sizes_of_inertia, range(tree.n_links))
        moved = [(mass, moment) for (mass, _), (_, moment) in parts]
        for i in tree.leaves_to_root():  # mass, and moment of inertia about the joint
            if (p := tree.parents[i]) != WORLD:
                m, moment = moved[i]
                moved[p] = moved[p][0] + m, moved[p][1] + moment + levers[i] * (levers[i] * m)
        axes = [
            (i, axis, j.pitch, float(r))
            for i, j in enumerate(tree.joints)
            for axis, r in zip(j.motion_axes, j.armature, strict=True)
        ]
        forces = self._at_joints(f, None, [[tau] for tau in self._motion.tau])
        return [
            _part(self._motion.ops, force, moved[i][axis // 3] + pitch**2 * moved[i][0] + armature)
            for force, (i, axis, pitch, armature) in zip(forces, axes, strict=True)
        ]

    def _balanced_by_rows(self, f: Sequence[Sizes]) -> list[Scalar]:
        """Force along each row that balances these forces and those of joints, the larger one of its ends."""
        ops, problem = self._motion.ops, self._motion.problem
        f = [(x + force, y + moment) for (x, y), (force, moment) in zip(f, self._from_joints(), strict=True)]
        rows: list[list[Scalar]] = [[0.0] * c.size for c in problem.constraints]
        for end in problem.end_effectors:
            force, moment = f[end.link]
            for r, (x, y) in enumerate(self._sizes_of_rows(end)):
                own = _balancing(ops, (force, moment), (x, y))
                rows[end.constraint][r] = ops.maximum(rows[end.constraint][r], own)
        for at in problem.joint_space_rows:
            forces = _along(problem.tree.joints[at.link], f[at.link])
            for r in at.rows:
                own = _part(ops, sum(forces, 0.0), _total(ops, ops.take(at.C, (r,), None)))
                rows[at.constraint][r] = ops.maximum(rows[at.constraint][r], own)
        return [x for own in rows for x in own]

    def _from_joints(self) -> list[Sizes]:
        """Forces and moments that the joints on the way to each link hand on to it."""
        ops, motion, out = self._motion.ops, self._motion, list[Sizes]()
        for i, (p, joint) in enumerate(zip(motion.tree.parents, motion.tree.joints, strict=True)):
            x, y = _parts(ops, ops.put(motion.tau[i], (6, 1), joint.motion_axes, (0,)))
            force, moment = (0.0, 0.0) if p == WORLD else out[p]
            out.append((force + x, moment + self._levers[i] * force + y))
        return out

    def _sizes_of_rows(self, end: EndEffector) -> list[Sizes]:
        ops = self._motion.ops
        return [_parts(ops, ops.transpose(ops.take(end.K, (r,), None))) for r in range(ops.shape(end.K)[0])]


class Terms(Usual):
    """Residuals of a solution in the equations of motion, and sizes of the terms that they are sums of.

    Attributes
    ----------
    missed, sizes : pairs of matrices, (nv × 1) and (m × 1)
        ``r`` and ``s``; ``t``, with signs at random, of rows with factors, too, and zero where those are by structure.
    usual_rows : scalar
        The largest acceleration along a row that usual ones of joints add up to, or the largest one of all
        joints if that is more: solutions are as accurate as their largest entry allows, also along rows that hold
        still.
    """

    def __init__(self, motion: DynamicsProblem, solution: DynamicsSolution) -> None:
        super().__init__(motion)
        ops, problem, tree = motion.ops, motion.problem, motion.tree
        self._qdd = [ops.take(solution.qdd, range(sv.start, sv.stop), None) for sv in tree.v_slices]
        f = [ops.take(solution.forces, range(rows.start, rows.stop), None) for rows in problem.rows]
        self._a, self._k = accelerations(motion, self._qdd), right_hand_sides(motion)
        self._yielded = [motion.compliance(c) @ own for c, own in enumerate(f)]
        self._on_links: list[list[Matrix]] = [[] for _ in tree.joints]
        self._on_joints = [[tau] for tau in motion.tau]
        for end in problem.end_effectors:
            self._on_links[end.link].append(-(ops.transpose(end.K) @ f[end.constraint]))
        for at in problem.joint_space_rows:
            self._on_joints[at.link].append(ops.transpose(at.C) @ f[at.constraint])

        links = zip(problem.inertias, self._a, motion.p, self._on_links, strict=True)
        self._f = [reduce(add, given, H @ a + p) for H, a, p, given in links]
        needed = to_joints(motion, self._f, self._qdd)
        r = [reduce(add, parts) - force for parts, force in zip(self._on_joints, needed, strict=True)]
        s = motion.stacked(self._k) - row_accelerations(motion, self._a, self._qdd) - motion.stacked(self._yielded)
        self.missed = motion.stacked(r), s

        self.sizes = tuple(ops.masked(t, like) for t, like in zip(self._rounded(), self.missed, strict=True))
        speeds: list[Scalar] = [0.0, *_sizes(ops, solution.qdd)]
        fastest = reduce(ops.maximum, speeds)
        alone = [from_entries(ops, [ops.maximum(x, fastest) for x in self.usual[0][sv]]) for sv in tree.v_slices]
        rows: list[Scalar] = [0.0, *self._along_rows(self._sums(alone)[0], alone)]
        self.usual_rows = reduce(ops.maximum, rows)

    def _rounded(self) -> tuple[Matrix, Matrix]:
        """``t``: what changes of all terms by their own size make of ``r`` and ``s``, with signs at random.

        Links get other accelerations and forces than their neighbours hand on, and hand these on themselves.
        """
        ops, motion, signs = self._motion.ops, self._motion, random.Random(0)
        problem, tree, levers, sizes = motion.problem, motion.tree, self._levers, list[Sizes]()
        a, f = list[Matrix](), list[Matrix]()

        def signed(x: Sequence[Scalar], like: Matrix) -> Matrix:
            return ops.masked(from_entries(ops, [y if signs.random() < 0.5 else -y for y in x]), like) if x else like

        # root → leaves: accelerations
        for i, p in enumerate(tree.parents):
            x, y = _parts(ops, ops.hstack([motion.along_joint(i, self._qdd[i]), motion.c[i]]))
            linear, angular = (_total(ops, motion.gravity), 0.0) if p == WORLD else _parts(ops, self._a[p])
            sizes.append((linear + levers[i] * angular + x, angular + y))
            own = signed([sizes[i][k // 3] for k in range(6)], self._a[i])
            a.append(own if p == WORLD else problem.X[i].motions_to_child(a[p]) + own)

        # forces and moments of links, and what their children hand on
        for i, H in enumerate(problem.inertias):
            x, y = _parts(ops, ops.hstack([motion.p[i], *self._on_links[i]]))
            (m, h), (_, moment) = self._sizes_of_inertia(i)
            force, couple = m * sizes[i][0] + h * sizes[i][1] + x, h * sizes[i][0] + moment * sizes[i][1] + y
            for child in tree.children[i]:
                x, y = _parts(ops, self._f[child])
                force, couple = force + x, couple + y + levers[child] * x
            f.append(H @ a[i] + signed([(force, couple)[k // 3] for k in range(6)], self._f[i]))
        on_joints = self._on_each_joint(self._qdd, self._on_joints)
        of_joints = [[sum(x) for x in zip(*parts, strict=True)] for parts in on_joints]
        t = [force + signed(x, force) for force, x in zip(to_joints(motion, f), of_joints, strict=True)]
        rows = row_accelerations(motion, a)
        along = signed(self._along_rows(sizes, self._qdd), self.missed[1])
        return motion.stacked(t), rows + scaled(ops, [signs.uniform(*UNEVEN) for _ in column(ops, along)], along)

    def _along_rows(self, a: Sequence[Sizes], qdd: Sequence[Matrix]) -> list[Scalar]:
        """Sums of the sizes of accelerations along each row."""
        ops, problem = self._motion.ops, self._motion.problem
        rows = [[*map(add, _sizes(ops, k), _sizes(ops, y))] for k, y in zip(self._k, self._yielded, strict=True)]
        for end in problem.end_effectors:
            linear, angular = a[end.link]
            ends = [other for other in problem.end_effectors if other.constraint == end.constraint]
            if len(ends) > 1:  # where the ends of a loop are is a difference of positions along both branches
                apart = {i for other in ends for i in problem.tree.support(other.link)}
                apart -= set() if end.top == WORLD else set(problem.tree.support(end.top))
                linear = linear + sum(self._levers[i] for i in sorted(apart)) * _parts(ops, self._a[end.link])[1]
            for r, (x, y) in enumerate(self._sizes_of_rows(end)):
                rows[end.constraint][r] = rows[end.constraint][r] + x * linear + y * angular
        for at in problem.joint_space_rows:
            for r in at.rows:
                sizes = zip(_sizes(ops, ops.take(at.C, (r,), None)), _sizes(ops, qdd[at.link]), strict=True)
                rows[at.constraint][r] = rows[at.constraint][r] + sum(x * y for x, y in sizes)
        return [x for own in rows for x in own]


def _balancing(ops: Ops, f: Sizes, row: Sizes) -> Scalar:
    """Force along a row whose force and moment are both at most those; what the row has not does not count."""
    (force, has_force), (moment, has_moment) = ((x, ops.less(0.0, y)) for x, y in zip(f, row, strict=True))
    force, moment = force + (1.0 - has_force), moment + (1.0 - has_moment)
    return ops.maximum(has_force, has_moment) * _part(ops, force * moment, row[0] * moment + row[1] * force)


def _along(joint: Joint, f: Sizes) -> list[Scalar]:
    """Sizes of a force along the degrees of freedom of a joint."""
    sizes = [f[axis // 3] for axis in joint.motion_axes]
    return [sizes[0] + abs(joint.pitch) * f[0]] if joint.pitch else sizes


def _by_part(joint: Joint, sizes: Sequence[Scalar]) -> list[Scalar]:
    """Sums of the sizes of the linear and of the angular entries of a joint, each at its entries."""
    each = list(zip(joint.motion_axes, sizes, strict=True))
    return [sum((x for k, x in each if k // 3 == axis // 3), 0.0) for axis, _ in each]


def _sizes(ops: Ops, a: Matrix) -> list[Scalar]:
    """Sizes of all entries."""
    return [x for row in ops.entries(ops.absolute(a)) for x in row]


def _part(ops: Ops, x: Scalar, y: Scalar) -> Scalar:
    """``x / y`` of sizes, in any unit; ``x``, which is zero, where ``y`` is."""
    return x * (1.0 / (y + (1.0 - ops.less(0.0, y))))


def _total(ops: Ops, a: Matrix) -> Scalar:
    """Sum of the sizes of all entries."""
    return sum(_sizes(ops, a), 0.0)


def _parts(ops: Ops, a: Matrix) -> Sizes:
    """Sum of the sizes of the linear and of the angular entries (6 × k)."""
    return _total(ops, ops.take(a, LINEAR, None)), _total(ops, ops.take(a, ANGULAR, None))
