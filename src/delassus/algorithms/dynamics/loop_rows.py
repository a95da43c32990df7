"""Loops in `pv_early` and `pv_soft` (not in the source): forces that wait until what they act on is at one link.

The forces of a constraint between two links stay in the form of both, with ``L = 0`` or the compliance of a soft
constraint, and are eliminated where both ends have met and ``L`` is regular at almost all states (eqs. 62, 63), at the
latest at the world. Forces of soft constraints to the world are eliminated at their own link: that is eq. 52.
"""

from __future__ import annotations

from delassus.algorithms.dynamics.link_elimination import Label, LinkElimination
from delassus.algorithms.dynamics.state import DynamicsProblem


def waiting(motion: DynamicsProblem) -> list[int]:
    """Constraints whose forces wait: soft ones, and those that have not one end."""
    ends = [end.constraint for end in motion.problem.ends]
    return [c for c, soft in enumerate(motion.softness) if soft or ends.count(c) != 1]


def eliminate_regular(link: LinkElimination) -> None:
    """Eliminate waiting forces all of whose ends are beyond the link, as many as have a regular ``L``."""
    tree, ops = link.problem.tree, link.ops
    chosen: list[Label] = []
    for c in dict.fromkeys(c for c, _ in link.labels):
        ends = [end.link for end in link.problem.ends if end.constraint == c]
        if all(link.link in tree.support(end) for end in ends):
            more = [*chosen, *(label for label in link.labels if label[0] == c)]
            if ops.rank(link.L(more)) == len(more):
                chosen = more
    link.eliminate_forces(chosen)
