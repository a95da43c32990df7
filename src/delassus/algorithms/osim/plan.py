"""`auto`: choose the cut set, the root link and the body frames by operation count, never worse than a named method.

Every candidate is traced, and the one with the fewest operations is taken: the cut algorithm over cut sets and, for
floating bases, root links (``G`` does not depend on which link carries the free joint), and every named method.
Candidates other than the named methods on the tree as it is run on a tree of the same robot whose body frames and
inertias are placed for few operations (`frame_placement`, `base_parameters`).

With few branching links all cut sets are counted; otherwise, and for the root, the search goes from neighbour to
neighbour as long as that helps. The search stops when `EFFORT` operations have been counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from delassus.algorithms.inputs import inputs_of
from delassus.algorithms.osim.cut import cut_osim
from delassus.algorithms.osim.dense import dense
from delassus.algorithms.osim.efpa import efpa
from delassus.algorithms.osim.kjr import kjr
from delassus.algorithms.osim.ltl import ltl_osim
from delassus.algorithms.osim.pv import pv_osim
from delassus.algorithms.osim.pvr import pv_osimr
from delassus.algorithms.problem import Coordinate, Problem
from delassus.constraints import Constraint
from delassus.errors import ModelError
from delassus.model.base_parameters import base_parameters
from delassus.model.frame_placement import frame_placement
from delassus.model.reroot import reroot, reroot_coordinates
from delassus.model.tree import WORLD, Tree
from delassus.spatial.ops import Matrix
from delassus.spatial.trace_ops import TraceOps

NAMED: Mapping[str, Callable[[Problem], Matrix]] = {
    "pv-osim": pv_osim,
    "pv-osimr": pv_osimr,
    "kjr": kjr,
    "efpa": efpa,
    "ltl-osim": ltl_osim,
    "dense": dense,
}
CUT = "cut"
FEW = 4
"""Up to so many branching links, all cut sets are counted."""

EFFORT = 250_000
"""Operations counted before the search for a better root or cut set ends."""

DENSE_FREEDOMS = 12
"""The dense method is counted for robots of at most so many degrees of freedom."""

MARGIN = 0.01
"""By how much the count must be lower to prefer another method to a named one."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How `auto` computes the Delassus matrix of one robot and constraint set, and why.

    Attributes
    ----------
    method : str
        A named method, or ``"cut"``.
    cut : tuple of str
        Links at which propagation starts again from an identity (none: PV-OSIM; all branching links: PV-OSIMr).
    root : str or None
        Link that carries the free joint in the tree that the algorithm runs on; None if the base is fixed.
    operations : int
        What the choice needs for one triangle of ``G``.
    named : mapping of str to int
        What the named methods need on the tree as it is; those that cannot be best may be missing.
    considered : int
        Number of candidates counted.
    tree : Tree
        Tree that the algorithm runs on: re-rooted, frames placed, inertias as base parameters.
    coordinates : tuple of (int, float), or None
        Where its configuration is in the original one; None: the same.
    """

    method: str
    cut: tuple[str, ...]
    root: str | None
    operations: int
    named: Mapping[str, int]
    considered: int
    tree: Tree = field(repr=False)
    coordinates: tuple[Coordinate, ...] | None = field(repr=False)

    def __str__(self) -> str:
        what = self.method
        if self.method == CUT:
            links = ", ".join(self.cut)
            what = f"propagation that restarts at {links}" if links else "one propagation to the root, as pv-osim"
        where = f", root link {self.root}" if self.root else ""
        others = ", ".join(f"{name} {n:,}" for name, n in sorted(self.named.items(), key=lambda item: item[1]))
        return f"{what}{where}: {self.operations:,} operations ({others}; {self.considered} candidates)"

    def run(self, problem: Problem) -> Matrix:
        """Delassus matrix (m × m) of a problem of this robot and these constraints."""
        own = problem.on(self.tree, self.coordinates)
        if self.method == CUT:
            return cut_osim(own, {self.tree.link_names.index(name) for name in self.cut})
        return NAMED[self.method](own)


def auto(problem: Problem) -> Matrix:
    """Delassus matrix (m × m) by the plan of the problem's robot and constraints."""
    return plan(problem.tree, problem.constraints, problem.payloads).run(problem)


def plan(tree: Tree, constraints: Sequence[Constraint], payloads: Sequence[str] = ()) -> Plan:
    """Choose how to compute the Delassus matrix; plans are kept.

    Examples
    --------
    >>> import delassus as ds
    >>> robot = ds.mechanisms.humanoid()
    >>> chosen = plan(robot, [ds.Weld("left_foot"), ds.Weld("right_foot")])
    >>> chosen.operations < min(chosen.named.values())
    True
    """
    return _plan(_Key(tree, tuple(constraints), tuple(payloads)))


class _Key:
    """A robot, constraints and payloads, compared by what the plan depends on."""

    def __init__(self, tree: Tree, constraints: tuple[Constraint, ...], payloads: tuple[str, ...]) -> None:
        self.tree, self.constraints, self.payloads = tree, constraints, payloads
        self._text = (tree.fingerprint, payloads, *(_fingerprint(c) for c in constraints))

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._text == other._text


def _fingerprint(c: Constraint) -> tuple[object, ...]:
    frames = (c.first, c.second)
    ends = [None if f is None else (f.link, f.position.tobytes(), f.rotation.tobytes(), f.given) for f in frames]
    return (*ends, None if c.rows is None else c.rows.tobytes(), c.size, c.axes, c.angular_axes, c.rigid)


@lru_cache(maxsize=256)
def _plan(key: _Key) -> Plan:
    return _Search(key.tree, key.constraints, key.payloads).plan()


@dataclass(frozen=True, slots=True, eq=False)
class _Stand:
    """A tree that the algorithm may run on, and the branching links at which it may be cut."""

    root: int
    tree: Tree
    coordinates: tuple[Coordinate, ...] | None
    branching: tuple[int, ...]


class _Search:
    """Counts candidates, the promising ones first."""

    def __init__(self, tree: Tree, constraints: tuple[Constraint, ...], payloads: tuple[str, ...]) -> None:
        self._tree, self._constraints, self._payloads = tree, constraints, payloads
        self._inputs = inputs_of(constraints, payloads)
        self._spent = self._considered = 0
        frames = [f for c in constraints for f in (c.first, c.second) if f is not None]
        self._names = [f.link for f in frames]
        self._ends = [link for link in (f.carrier(tree) for f in frames) if link != WORLD]
        self._movable = (
            tree.is_floating and tree.parents.count(WORLD) == 1 and not any(map(self._needs_pose, constraints))
        )
        self._stands: dict[int, _Stand | None] = {}
        self._counts: dict[tuple[int, frozenset[int]], int] = {}

    def _needs_pose(self, c: Constraint) -> bool:
        """Whether the rows depend on where in the world the robot is."""
        from_world = c.second is not None and c.first.carrier(self._tree) == WORLD
        return from_world or c.axes == "world" or c.angular_axes == "world"

    def plan(self) -> Plan:
        """The best candidate."""
        base = self._stand(0)
        assert base is not None
        named = self._named(self._tree, NAMED, 10**12)
        best_named = min(named, key=lambda name: named[name])
        choice = Plan(best_named, (), self._root(0), named[best_named], named, 0, self._tree, None)
        placed = self._named(base.tree, ("kjr", "efpa", "ltl-osim", "dense"), choice.operations)
        for name, operations in placed.items():
            if operations < choice.operations * (1 - MARGIN):
                choice = Plan(name, (), self._root(0), operations, named, 0, base.tree, base.coordinates)
        root, cut = self._best_cut()
        operations, stand = self._count(root, cut), self._stand(root)
        assert stand is not None
        if operations < choice.operations * (1 - MARGIN):
            names = tuple(stand.tree.link_names[i] for i in sorted(cut))
            choice = Plan(CUT, names, self._root(root), operations, named, 0, stand.tree, stand.coordinates)
        return Plan(
            choice.method, choice.cut, choice.root, choice.operations, named, self._considered, choice.tree,
            choice.coordinates,
        )  # fmt: skip

    def _root(self, link: int) -> str | None:
        return self._tree.link_names[link] if self._tree.is_floating else None

    def _named(self, tree: Tree, names: Sequence[str] | Mapping[str, object], bound: int) -> dict[str, int]:
        out: dict[str, int] = {}
        for name in names:
            least = min([bound, *out.values()])
            if name == "dense" and tree.nv > DENSE_FREEDOMS:
                continue
            if name == "ltl-osim" and _factorisation(tree) > least:
                continue
            out[name] = self._measure(tree, NAMED[name])
        return out

    def _measure(self, tree: Tree, algorithm: Callable[[Problem], Matrix]) -> int:
        ops = TraceOps()
        given = [ops.unknown(*i.shape) if len(i.shape) == 2 else ops.vector(i.shape[0]) for i in self._inputs]
        problem = Problem(ops, tree, self._constraints, ops.vector(tree.nq), given, self._payloads)
        total = ops.count(ops.nodes(algorithm(problem), lower=True))
        self._spent += total
        self._considered += 1
        return total

    def _stand(self, root: int) -> _Stand | None:
        """The tree with that root, prepared; None if it cannot be re-rooted there."""
        if root not in self._stands:
            self._stands[root] = self._prepared(root)
        return self._stands[root]

    def _prepared(self, root: int) -> _Stand | None:
        tree, coordinates = self._tree, None
        if root != 0:
            link = tree.link_names[root]
            try:
                tree = reroot(tree, link)
            except ModelError:
                return None
            coordinates = reroot_coordinates(self._tree, link, tree)
        tree = base_parameters(frame_placement(tree, self._names, free_base=self._movable))
        ends = [link for link in (tree.placement(name).link for name in self._names) if link != WORLD]
        crowded = {link for link in ends if self._rows_on(tree, link) > 6}
        inner = {i for i in {*tree.branching_links(ends), *crowded} if tree.parents[i] != WORLD}
        return _Stand(root, tree, coordinates, tuple(sorted(inner)))

    def _rows_on(self, tree: Tree, link: int) -> int:
        return sum(c.size for c in self._constraints for f in (c.first, c.second) if f and f.carrier(tree) == link)

    def _count(self, root: int, cut: frozenset[int]) -> int:
        if (root, cut) not in self._counts:
            stand = self._stand(root)
            assert stand is not None
            self._counts[root, cut] = self._measure(stand.tree, lambda problem: cut_osim(problem, cut))
        return self._counts[root, cut]

    # -- cut sets and roots ----------------------------------------------------------------------------------------

    def _best_cut(self) -> tuple[int, frozenset[int]]:
        """Best root and cut set that the search finds."""
        best = (self._cut_at(0)[1], 0, self._cut_at(0)[0])
        pending = list(self._roots())
        tried = {0, *pending}
        while pending and self._spent < EFFORT:
            root = pending.pop(0)
            if self._stand(root) is None:
                continue
            cut, operations = self._cut_at(root)
            if operations < best[0]:
                best = (operations, root, cut)
            if not pending:
                pending = [i for i in self._neighbours(best[1]) if i not in tried]
                tried.update(pending)
        return best[1], best[2]

    def _roots(self) -> Iterator[int]:
        """Links that may well be a better root: branching links, and those next to an end-effector's."""
        tree, ends = self._tree, self._ends
        if not self._movable:
            return
        found = {0}
        for i in (*tree.branching_links(ends), *(tree.parents[e] for e in ends[:1]), *ends[:1]):
            if i not in found and i != WORLD:
                found.add(i)
                yield i

    def _neighbours(self, root: int) -> Iterator[int]:
        if self._movable:
            supporting = self._tree.supporting_links(self._ends)
            yield from (i for i in (self._tree.parents[root], *self._tree.children[root]) if i in supporting)

    def _cut_at(self, root: int) -> tuple[frozenset[int], int]:
        """Best cut set for a root that the search finds, and its count."""
        stand = self._stand(root)
        assert stand is not None
        none: frozenset[int] = frozenset()
        if len(stand.branching) <= FEW:
            sets = [
                frozenset(s)
                for k in range(len(stand.branching) + 1)
                for s in itertools.combinations(stand.branching, k)
            ]
            sets = sets[:1] + [s for s in sets[1:] if self._spent < EFFORT or root == 0]
            best = min(sets, key=lambda s: self._count(root, s))
            return best, self._count(root, best)
        best = min((none, frozenset(stand.branching)), key=lambda s: self._count(root, s))
        improved = True
        while improved and self._spent < EFFORT:
            improved = False
            for i in stand.branching:
                if self._spent > EFFORT:
                    break
                flipped = best ^ {i}
                if self._count(root, flipped) < self._count(root, best):
                    best, improved = flipped, True
        return best, self._count(root, best)


def _factorisation(tree: Tree) -> int:
    """Fewest operations of the sparse factorisation of ``M``: one multiplication and addition an entry of the fill."""
    depths: list[int] = []
    for parent in tree.dof_parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    return sum(d * d for d in depths)
