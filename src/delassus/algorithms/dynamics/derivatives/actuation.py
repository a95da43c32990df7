"""How joint forces of controls change with positions, velocities and controls: `actuation`, carried out with changes.

What is cut off does not change; at the limit itself it does. Nothing here is from a source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from delassus.algorithms.dynamics.actuation import Forces, State
from delassus.model.tree import Tree
from delassus.spatial.dual_ops import Dual, DualOps, Rates
from delassus.spatial.ops import Matrix, Ops


def control_rates(
    ops: Ops, tree: Tree, forces: Callable[..., Forces], q: State, v: State, controls: Sequence[State]
) -> tuple[Matrix, Matrix, Matrix]:
    """Changes of joint forces (nv) with positions, along the tangent, and velocities (nv × nv), and with controls.

    ``forces`` is of `actuation`; of ``controls``, the first varies.
    """
    vary = (("q", q), ("v", v), ("u", controls[0]))
    dual = ([Dual(x, {(name, k): 1.0}) for k, x in enumerate(numbers)] for name, numbers in vary)
    tau: Mapping[int, Any] = forces(
        DualOps(ops), tree, *dual, *([Dual(x) for x in numbers] for numbers in controls[1:])
    )
    rates: list[Rates] = [tau[dof].rates if dof in tau else {} for dof in range(tree.nv)]
    coordinate = {sv.start: sq.start for sq, sv in zip(tree.q_slices, tree.v_slices, strict=True)}
    places = {
        "q": [coordinate.get(k, -1) for k in range(tree.nv)], "v": range(tree.nv), "u": range(len(controls[0])),
    }  # fmt: skip
    with_q, with_v, with_u = (
        ops.matrix([[of_one.get((name, k), 0.0) for k in columns] for of_one in rates])
        for name, columns in places.items()
    )
    return with_q, with_v, with_u
