"""Which algorithm of forward dynamics "auto" takes, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delassus.accuracy.closed_loops import rank_when_closed
from delassus.constraints import Constraint
from delassus.model.tree import Tree


@dataclass(frozen=True, slots=True)
class Choice:
    """Algorithm that ``method="auto"`` takes where operations are not counted, and why."""

    method: str
    reason: str

    def __str__(self) -> str:
        return f"{self.method}: {self.reason}"


def choose(tree: Tree, constraints: Sequence[Constraint], soft: Sequence[bool], active: bool = False) -> Choice:
    """Method that "auto" takes for forward dynamics; ``soft`` flags constraints, ``active``: they can be off."""
    if not soft:
        return Choice("aba", "there are no constraints")
    if active and are_mixed(soft):
        return Choice("proximal", "constraints that can be off are soft and hard")
    closed = rank_when_closed(tree, [c for c, is_soft in zip(constraints, soft, strict=True) if not is_soft])
    if closed is not None and closed[0] < closed[1]:
        return Choice("proximal", "of {1} rows of loops {0} are independent where they are closed".format(*closed))
    return Choice(
        "pv-early", "constraints are " + " and ".join({True: "soft", False: "hard"}[x] for x in sorted(set(soft)))
    )


def are_mixed(soft: Sequence[bool]) -> bool:
    """Whether some constraints are soft and others hard."""
    return any(soft) and not all(soft)
