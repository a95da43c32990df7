"""Loops in `pv_early` and `pv_soft` (not in the source): forces that wait until what they act on is at one link.

The forces of a constraint between two links stay in the form of both, with ``L = 0`` or the compliance of a soft
constraint, and are eliminated where both ends have met and ``L`` is regular at almost all states (eqs. 62, 63), at the
latest at the world. Forces of soft constraints to the world are eliminated at their own link: that is eq. 52.
"""

from __future__ import annotations

from delassus.algorithms.dynamics.link_elimination import JOINT, Label, LinkElimination, links_of, row_groups
from delassus.algorithms.dynamics.state import DynamicsProblem


def waiting(motion: DynamicsProblem) -> list[tuple[Label, ...]]:
    """Rows whose forces wait: those on links that have not one end, and on joints soft ones or of several branches."""
    problem, out = motion.problem, list[tuple[Label, ...]]()
    for c, soft in enumerate(motion.softness):
        for labels in row_groups(problem, c):
            links = links_of(problem, labels[0])
            on_links = any(end.constraint == c for end in problem.ends)
            on_path = bool(links) and set(links) <= set(problem.tree.support(max(links)))
            at_once = len(links) == 1 if on_links else on_path and not soft
            if not at_once:
                out.append(labels)
    return out


def eliminate_regular(link: LinkElimination) -> None:
    """Eliminate waiting forces all of whose ends are beyond the link, as many as have a regular ``L``."""
    tree = link.problem.tree
    chosen: list[Label] = []
    constraints = dict.fromkeys(c for c, _ in link.labels if c != JOINT)
    for group in (group for c in constraints for group in row_groups(link.problem, c)):
        here = [label for label in link.labels if label in group]
        if here and all(link.link in tree.support(end) for end in links_of(link.problem, group[0])):
            more = [*chosen, *here]
            if link.is_regular(more):
                chosen = more
    link.eliminate_forces(chosen)
