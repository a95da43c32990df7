"""Loops in `pv_early` and `pv_soft` (not in the source): forces that wait until their ``L`` is regular.

The forces of a constraint between two links are in the form of both, with ``L = 0`` or the compliance of a soft
constraint. They are eliminated where both ends have met and ``L`` is regular at almost all states (eqs. 62, 63), at the
latest at the world; or earlier, where ``L`` is regular from one end alone. That couples all links that the forces act
on: each then has the accelerations of the others in its form, 6 × 6 blocks, until they meet. What is better, and in
which order to eliminate links, is a question of operations: `delassus.quantities.planner.elimination`. The derivation
is in ``docs/pv_early.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from itertools import combinations

import numpy as np

from delassus.algorithms.dynamics.popov_vereshchagin.link_elimination import LinkElimination
from delassus.algorithms.dynamics.popov_vereshchagin.parts import Part, links_of, links_of_labels, row_groups
from delassus.algorithms.dynamics.popov_vereshchagin.steps import Label
from delassus.algorithms.dynamics.state import NEVER, DynamicsProblem
from delassus.model.tree import WORLD

LEAST_CONSTANT = 1e-3
"""Least eigenvalue of a regular constant ``L``, by its largest entry: three digits at most are lost."""


def waiting(motion: DynamicsProblem) -> list[tuple[Label, ...]]:
    """Rows whose forces wait: those on links that have not one end, and on joints soft ones or of several branches."""
    problem, out = motion.problem, list[tuple[Label, ...]]()
    for c, soft in enumerate(motion.softness):
        for labels in row_groups(problem, c):
            links = links_of(problem, labels[0])
            on_links = any(end.constraint == c for end in problem.end_effectors)
            on_path = bool(links) and set(links) <= set(problem.tree.support(max(links)))
            at_once = len(links) == 1 if on_links else on_path and not soft
            if not at_once:
                out.append(labels)
    return out


def eliminate_before_joint(link: LinkElimination, parts: list[Part], block: float) -> Set[Label]:
    """Eliminate forces before the link's joint; returns those that are not to be eliminated right after it.

    Where blocks couple links, forces whose ``L`` is regular before a joint are eliminated after it: with one degree of
    freedom more than rows, pivots are seldom small. Long mechanisms have many of them.
    """
    if block == NEVER:
        link.eliminate_forces(_regular(link, _complete(link, parts)))
    elif link.problem.tree.parents[link.link] != WORLD:
        return {label for group in _groups(link) if not link.is_regular(group) for label in group}
    return frozenset()


def eliminate_after_joint(link: LinkElimination, parts: list[Part], late: Set[Label], block: float) -> None:
    """Eliminate forces, but for those of ``late``, that no other part has; and others where few blocks replace them."""
    now = set(_regular(link, [group for group in _complete(link, parts) if late.isdisjoint(group)]))
    link.eliminate_forces([label for label in link.labels if label in now])
    while block < NEVER and (early := _worth_it(link, parts, late, block)):
        own = [part for part in parts if not early.isdisjoint(part.labels)]
        parts[:] = [part for part in parts if part not in own]
        link.add(own)
        link.eliminate_forces([label for label in link.labels if label in early])
        now |= early
    if now and block < NEVER:
        link.ops.new_system()


def _worth_it(link: LinkElimination, parts: list[Part], late: Set[Label], block: float) -> set[Label]:
    """Forces with a regular ``L`` that act on the same links, if ``block`` for each new pair of links is no more."""
    parent, by_links = link.problem.tree.parents[link.link], dict[frozenset[int], list[list[Label]]]()
    for group in _groups(link):
        far = frozenset(i for part in parts if not part.is_without(group) for i in part.links)
        by_links.setdefault(far, []).append(group)
    here = links_of_labels(link.labels) | {parent} - {WORLD}
    coupled = {pair for links in (here, *(part.links for part in parts)) for pair in combinations(sorted(links), 2)}
    for far, groups in by_links.items():
        if far == {parent}:  # there they meet
            continue
        ready = [group for group in groups if late.isdisjoint(group)]
        early = _regular(link, ready) or _constant(link, groups)
        if early and block * len(set(combinations(sorted(here | far), 2)) - coupled) <= len(early):
            return set(early)
    return set()


def _constant(link: LinkElimination, groups: Iterable[list[Label]]) -> list[Label]:
    """Rows of a group whose ``L`` is constant and regular, all others being zero: of a rod on a ball those across it.

    Constant pivots are not small at some states: these rows need not wait for a joint more.
    """
    for group in groups:
        L = link.ops.known(link.L(group))
        at = [] if L is None else np.flatnonzero(np.diag(L)).tolist()
        is_apart = L is not None and np.count_nonzero(L) == np.count_nonzero(L[np.ix_(at, at)])
        if at and is_apart and np.linalg.eigvalsh(L[np.ix_(at, at)])[0] > LEAST_CONSTANT * np.abs(L).max():
            return [group[k] for k in at]
    return []


def _groups(link: LinkElimination) -> list[list[Label]]:
    """Forces of a link's form that wait, those that are eliminated together."""
    labels = [label for label in link.labels if label[0] >= 0 and label not in link.rows]
    constraints = dict.fromkeys(c for c, _ in labels)
    groups = ([x for x in labels if x in group] for c in constraints for group in row_groups(link.problem, c))
    return [group for group in groups if group]


def _complete(link: LinkElimination, parts: list[Part]) -> list[list[Label]]:
    """Forces that no other part has."""
    return [group for group in _groups(link) if all(part.is_without(group) for part in parts)]


def _regular(link: LinkElimination, groups: Iterable[list[Label]]) -> list[Label]:
    """The most groups, in order, whose joint ``L`` is regular."""
    chosen: list[Label] = []
    for group in groups:
        if link.is_regular([*chosen, *group]):
            chosen += group
    return chosen
