"""`auto`: choose the cut set, the root link and the body frames by operation count, never worse than a named method.

Every candidate is traced, and the one with the fewest operations is taken: the cut algorithm over cut sets and, for
floating bases, root links (``G`` does not depend on which link carries the free joint), and every named method. Where
round-off is large in that one, as with light links, it is the named method with the fewest operations in which it is
not.
Candidates other than the named methods on the tree as it is run on a tree of the same robot whose body frames and
inertias are placed for few operations (`frame_placement`, `regrouped_inertias`).

With few branching links all cut sets are counted; otherwise, and for the root, the search goes from neighbour to
neighbour as long as that helps. The search stops when `EFFORT` operations have been counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

import numpy as np

from delassus.algorithms.inputs import inputs_of
from delassus.algorithms.osim import METHODS, OF_LOOPS
from delassus.algorithms.osim.cut import cut_osim
from delassus.algorithms.problem import Coordinate, Problem
from delassus.constraints import Constraint
from delassus.errors import ModelError
from delassus.model.edit.reroot import reroot, reroot_coordinates
from delassus.model.tree import WORLD, Tree
from delassus.quantities.planner.frame_placement import frame_placement
from delassus.quantities.planner.regrouped_inertias import regrouped_inertias
from delassus.spatial.ops import Matrix
from delassus.spatial.trace.graph import undisturbed
from delassus.spatial.trace.trace_ops import TraceOps

CUT_COVERS = ("pv-osim", "pv-osimr")
"""Methods that are cuts, at no branching link and at all of them."""

LAST = ("ltl-osim", "dense")
"""Methods that are counted only where they may be best, after all others."""

NAMED = (*CUT_COVERS, *(name for name in METHODS if name not in (*CUT_COVERS, *LAST, *OF_LOOPS)), *LAST)
"""Methods in the order in which they are counted; of equal ones the first is taken."""

CUT = "cut"

ACCURATE = 1e-6
"""Round-off of ``G`` by its largest entry, taken to be a hundred times what it is, above which a candidate is left out
if some named method has less."""


ALL_CUTS_UP_TO = 4
"""Up to so many branching links, all cut sets are counted."""

EFFORT = 250_000
"""Operations counted before the search for a better root or cut set ends."""

DENSE_FREEDOMS = 12
"""The dense method is counted for robots of at most so many degrees of freedom."""

MARGIN = 0.01
"""By how much the count must be lower to prefer another method to a named one."""


@dataclass(frozen=True, slots=True, eq=False)
class MethodPlan:
    """Plan of `auto` for the Delassus matrix of a robot and constraint set, with its reason.

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
        return METHODS[self.method](own)


def auto(problem: Problem) -> Matrix:
    """Delassus matrix (m × m) by the plan of the problem's robot and constraints."""
    return plan(problem.tree, problem.constraints, problem.payloads).run(problem)


def plan(tree: Tree, constraints: Sequence[Constraint], payloads: Sequence[str] = ()) -> MethodPlan:
    """Choose how to compute the Delassus matrix; plans are kept.

    Examples
    --------
    >>> import delassus as ds
    >>> robot = ds.mechanisms.humanoid()
    >>> chosen = plan(robot, [ds.Weld("left_foot"), ds.Weld("right_foot")])
    >>> chosen.operations < min(chosen.named.values())
    True
    """
    return _plan(tree, tuple(constraints), tuple(payloads))


@lru_cache(maxsize=256)
@undisturbed
def _plan(tree: Tree, constraints: tuple[Constraint, ...], payloads: tuple[str, ...]) -> MethodPlan:
    return _CandidateSearch(tree, constraints, payloads).plan()


@dataclass(frozen=True, slots=True, eq=False)
class _Variant:
    """A tree of the same robot that the algorithm may run on, and the branching links at which it may be cut."""

    tree: Tree
    coordinates: tuple[Coordinate, ...] | None
    branching: tuple[int, ...]


class _CandidateSearch:
    """Counts candidates, the promising ones first."""

    def __init__(self, tree: Tree, constraints: tuple[Constraint, ...], payloads: tuple[str, ...]) -> None:
        self._tree, self._constraints, self._payloads = tree, constraints, payloads
        self._inputs = inputs_of(constraints, payloads)
        self._spent = self._considered = 0
        self._frames = [f.link for c in constraints for f in c.frames]
        self._ends = self._links_of_ends(tree)
        self._root_is_free = (
            tree.is_floating and tree.parents.count(WORLD) == 1 and all(c.is_internal(tree) for c in constraints)
        )
        self._variant = cache(self._prepared)
        self._count = cache(self._counted)

    def _links_of_ends(self, tree: Tree) -> list[int]:
        """Links that rows start from on their way to the root: of rows on a joint, the link that the joint is on."""
        joints = [i for c in self._constraints for i in c.coefficients(tree)]
        links = [*(tree.placement(name).link for name in self._frames), *(tree.parents[i] for i in joints)]
        return [link for link in links if link != WORLD]

    def plan(self) -> MethodPlan:
        """The best candidate: a named method, one on placed body frames, or a cut set and a root."""
        named = self._named(self._tree, NAMED)
        method = min(named, key=lambda name: named[name])
        best = MethodPlan(method, (), self._root_name(0), named[method], named, 0, self._tree, None)
        placed = self._variant(0).tree
        for name, operations in self._named(placed, NAMED[len(CUT_COVERS) :], best.operations).items():
            if operations < best.operations * (1 - MARGIN):
                best = replace(best, method=name, operations=operations, tree=placed)
        operations, root, cut = self._best_cut()
        if operations < best.operations * (1 - MARGIN):
            own = self._variant(root)
            names = tuple(own.tree.link_names[i] for i in sorted(cut))
            best = replace(
                best, method=CUT, cut=names, root=self._root_name(root), operations=operations, tree=own.tree,
                coordinates=own.coordinates,
            )  # fmt: skip
        plain = [MethodPlan(name, (), self._root_name(0), n, named, 0, self._tree, None) for name, n in named.items()]
        accurate = (x for x in (best, *sorted(plain, key=lambda x: x.operations)) if self._is_accurate(x))
        return replace(next(accurate, best), considered=self._considered)

    def _is_accurate(self, plan: MethodPlan) -> bool:
        """Whether round-off leaves the matrix as exact as it is to be: inertias that are added up lose light links."""
        ops, G = self._traced(self._tree, plan.run)
        size = max((abs(ops.at[x]) for x in ops.nodes(G)), default=0.0)
        return bool(np.all(ops.errors_of(G) <= ACCURATE * size))

    def _root_name(self, link: int) -> str | None:
        return self._tree.link_names[link] if self._tree.is_floating else None

    def _named(self, tree: Tree, names: Sequence[str], bound: float = float("inf")) -> dict[str, int]:
        """Counts of the named methods, but for those that cannot come below the bound or the others."""
        out: dict[str, int] = {}
        for name in names:
            if name == "dense" and tree.nv > DENSE_FREEDOMS:
                continue
            if name == "ltl-osim" and _factorisation(tree) > min([bound, *out.values()]):
                continue
            out[name] = self._measure(tree, METHODS[name])
        return out

    def _traced(self, tree: Tree, algorithm: Callable[[Problem], Matrix]) -> tuple[TraceOps, Matrix]:
        ops = TraceOps()
        given = [ops.unknown(*i.shape) if len(i.shape) == 2 else ops.vector(i.shape[0]) for i in self._inputs]
        return ops, algorithm(Problem(ops, tree, self._constraints, ops.vector(tree.nq), given, self._payloads))

    def _measure(self, tree: Tree, algorithm: Callable[[Problem], Matrix]) -> int:
        ops, G = self._traced(tree, algorithm)
        total = ops.count(ops.nodes(G, lower=True))
        self._spent += total
        self._considered += 1
        return total

    def _prepared(self, root: int) -> _Variant:
        """The tree with that root, prepared; raises `ModelError` if it cannot be re-rooted there."""
        tree, coordinates = self._tree, None
        if root != 0:
            link = tree.link_names[root]
            tree = reroot(tree, link)
            coordinates = reroot_coordinates(self._tree, link, tree)
        tree = regrouped_inertias(frame_placement(tree, self._frames, free_base=self._root_is_free))
        inner = {i for i in tree.branching_links(self._links_of_ends(tree)) if tree.parents[i] != WORLD}
        return _Variant(tree, coordinates, tuple(sorted(inner)))

    def _counted(self, root: int, cut: frozenset[int]) -> int:
        return self._measure(self._variant(root).tree, lambda problem: cut_osim(problem, cut))

    # -- cut sets and roots ----------------------------------------------------------------------------------------

    def _best_cut(self) -> tuple[int, int, frozenset[int]]:
        """Fewest operations that the search finds, with their root and cut set."""
        best = self._cut_at(0)
        pending = list(self._likely_roots())
        tried = {0, *pending}
        while pending and self._spent < EFFORT:
            try:
                found = self._cut_at(pending.pop(0))
            except ModelError:  # the tree cannot be re-rooted there
                continue
            best = min(best, found, key=lambda candidate: candidate[0])
            if not pending:
                pending = [i for i in self._neighbours(best[1]) if i not in tried]
                tried.update(pending)
        return best

    def _likely_roots(self) -> Iterator[int]:
        """Links that may well be a better root: branching links, and those next to an end-effector's."""
        tree, ends = self._tree, self._ends
        if self._root_is_free:
            links = (*tree.branching_links(ends), *(tree.parents[e] for e in ends[:1]), *ends[:1])
            yield from (i for i in dict.fromkeys(links) if i not in (0, WORLD))

    def _neighbours(self, root: int) -> Iterator[int]:
        supporting = self._tree.supporting_links(self._ends)
        yield from (i for i in (self._tree.parents[root], *self._tree.children[root]) if i in supporting)

    def _cut_at(self, root: int) -> tuple[int, int, frozenset[int]]:
        """Fewest operations for a root that the search finds, with the root and the cut set."""
        branching = self._variant(root).branching
        if len(branching) <= ALL_CUTS_UP_TO:
            sizes = range(len(branching) + 1)
            sets = [frozenset(s) for k in sizes for s in itertools.combinations(branching, k)]
        else:
            sets = [frozenset(), frozenset(branching)]
        best = min(sets, key=lambda s: self._count(root, s))
        improved = len(branching) > ALL_CUTS_UP_TO
        while improved and self._spent < EFFORT:
            improved = False
            for i in branching:
                if self._spent > EFFORT:
                    break
                if self._count(root, best ^ {i}) < self._count(root, best):
                    best, improved = best ^ {i}, True
        return self._count(root, best), root, best


def _factorisation(tree: Tree) -> int:
    """Fewest operations of the sparse factorisation of ``M``: one multiplication and addition an entry of the fill."""
    depths: list[int] = []
    for parent in tree.dof_parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    return sum(d * d for d in depths)
