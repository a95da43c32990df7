"""How joint forces of controls change with positions, velocities and controls: `actuation`, carried out with changes.

What is cut off does not change; at the limit itself it does. Nothing here is from a source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from delassus.algorithms.dynamics.actuation import Forces, State
from delassus.algorithms.dynamics.derivatives.second import Second
from delassus.model.tree import Tree
from delassus.spatial.dual_ops import Dual, DualOps, Rates, TwiceDualOps
from delassus.spatial.motion import column, dot
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


def control_curvature(
    ops: Ops, tree: Tree, forces: Callable[..., Forces], q: State, v: State, controls: Sequence[State], weights: Matrix
) -> Second:
    """Second derivatives of ``w·τ``, with weights (nv × 1) of joint forces; see `control_rates`."""
    twice = TwiceDualOps(ops)
    vary = (("q", q), ("v", v), ("u", controls[0]))
    varied = ([twice.varied(x, (name, k)) for k, x in enumerate(numbers)] for name, numbers in vary)
    held = ([Dual(Dual(x)) for x in numbers] for numbers in controls[1:])
    tau: Mapping[int, Any] = forces(twice, tree, *varied, *held)
    total = dot([tau[k] for k in tau], [column(ops, weights)[k] for k in tau]) if tau else 0.0
    coordinate = {sv.start: sq.start for sq, sv in zip(tree.q_slices, tree.v_slices, strict=True)}
    keys = [
        *(("q", coordinate.get(k, -1)) for k in range(tree.nv)), *(("v", k) for k in range(tree.nv)),
        *(("u", k) for k in range(len(controls[0]))),
    ]  # fmt: skip
    H, nv = twice.second_rates(total, keys), tree.nv
    of_q, of_v, of_u = range(nv), range(nv, 2 * nv), range(2 * nv, len(keys))
    pairs = (of_q, of_q), (of_q, of_v), (of_v, of_v), (of_q, of_u), (of_v, of_u), (of_u, of_u)
    return Second(*(ops.take(H, *pair) for pair in pairs))
