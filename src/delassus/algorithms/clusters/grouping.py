"""Clusters of links: which joints the loops of a robot tie, and the link that all of a cluster hang from.

A constraint couples the joints between the links that its rows meet and their closest common ancestor; rows on joints
those between the links that these joints carry and the closest common ancestor of their parents, so that a coupling of
the first and the third joint of a chain takes in the second. Sets with a joint in common merge. Each set holds with a
link all that are above it, up to the link that the set hangs from; so does a union of two, which thus hangs from one
link, and clusters form a tree. A joint that nothing couples is a cluster of its own.

Source: Jain, "Multibody graph transformations and analysis, part II", Nonlinear Dynamics 2012; Chignoli, Adrian, Kim,
Wensing, arXiv 2311.13732, section III.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from delassus.constraints import Constraint
from delassus.model.tree import Tree


class Cluster(NamedTuple):
    """Links of a cluster, from the root on; the link that they hang from, or `WORLD`; numbers of its constraints."""

    links: tuple[int, ...]
    parent: int
    constraints: tuple[int, ...]


def clusters(tree: Tree, constraints: Sequence[Constraint]) -> list[Cluster]:
    """Clusters of all links, parents before children."""
    found: list[tuple[set[int], list[int]]] = []
    for k, constraint in enumerate(constraints):
        links, numbers = _coupled(tree, constraint), [k]
        for other in [x for x in found if x[0] & links]:
            found.remove(other)
            links, numbers = links | other[0], numbers + other[1]
        if links:
            found.append((links, numbers))
    alone = set(tree.root_to_leaves()).difference(*(links for links, _ in found))
    every = [*found, *(({i}, list[int]()) for i in alone)]
    ordered = sorted((tuple(sorted(links)), tuple(sorted(numbers))) for links, numbers in every)
    return [Cluster(links, tree.parents[links[0]], numbers) for links, numbers in ordered]


def _coupled(tree: Tree, constraint: Constraint) -> set[int]:
    """Links whose joints move the rows of a constraint, or are between such."""
    joints = constraint.coefficients(tree)
    stems = [tree.parents[i] for i in joints] or [constraint.top(tree)]
    above = set(tree.support(reduce(tree.closest_common_ancestor, stems)))
    return {i for end in (joints or constraint.carriers(tree)) for i in tree.support(end)} - above
