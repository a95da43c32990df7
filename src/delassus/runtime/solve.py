"""Forward dynamics by a kernel, with the status and residuals that the direct function reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.algorithms.dynamics import ITERATIVE, SOFT, UNCONSTRAINED
from delassus.algorithms.dynamics.evaluate import forward_dynamics, make_motion
from delassus.algorithms.dynamics.options import Baumgarte
from delassus.algorithms.dynamics.redundancy import DynamicsStatus, Settled
from delassus.algorithms.dynamics.result import ForwardDynamics, solved
from delassus.algorithms.inputs import inputs_of
from delassus.compiler.options import pose_name, target_name, wrench_name
from delassus.runtime.request import Request

Arrays = Mapping[str, NDArray[Any]]


def with_status(
    request: Request, method: str, arrays: Arrays, qdd: NDArray[Any], forces: NDArray[Any], doubtful: NDArray[np.bool_]
) -> ForwardDynamics:
    """Complete what a kernel has computed; ``doubtful`` states are solved again, if possible by the dense method."""
    batch, m = doubtful.shape, forces.shape[-1]
    motion, _ = make_motion(
        request.tree, arrays["q"], arrays["v"], arrays["tau"], request.constraints, **_keywords(request, arrays)
    )
    status: NDArray[np.object_] = np.full(batch, DynamicsStatus.SOLVED, dtype=object)
    settled = Settled(
        qdd.astype(float), forces.astype(float), status, np.full(batch, m), np.zeros((*batch, m), dtype=bool)
    )
    if doubtful.any():
        some = {name: x[doubtful] for name, x in arrays.items()}
        can_be_dense = method not in SOFT | ITERATIVE | UNCONSTRAINED
        again = forward_dynamics(
            request.tree,
            some["q"],
            some["v"],
            some["tau"],
            request.constraints,
            method="kkt" if can_be_dense else method,
            **_keywords(request, some),
        )
        settled.qdd[doubtful], settled.forces[doubtful] = again.qdd, _stacked(again)
        settled.status[doubtful], settled.rank[doubtful] = again.status, again.rank
        settled.redundant[doubtful] = again.redundant_rows
    return solved(motion, batch, method, settled)


def _stacked(solution: ForwardDynamics) -> NDArray[Any]:
    """Forces of all constraints (..., m)."""
    return np.concatenate([solution.qdd[..., :0], *solution.forces], axis=-1)


def _keywords(request: Request, arrays: Arrays) -> dict[str, Any]:
    """Keywords of the direct function for a kernel's options and further arguments."""
    setting, n = request.setting, len(request.constraints)
    given: dict[str, list[Any]] = {"rows": [], "placements": [], "payloads": []}
    for i in inputs_of(request.constraints, request.payloads):
        given[i.kind].append(arrays[i.name])
    return {
        "gravity": arrays["gravity"] if setting.gravity is None else setting.gravity,
        "damping": arrays["damping"] if setting.damping == "input" else setting.damping,
        "wrenches": {frame: arrays[wrench_name(k)] for k, frame in enumerate(setting.wrenches)},
        "targets": [arrays.get(target_name(k)) for k in range(n)],
        "poses": [arrays.get(pose_name(k)) for k in range(n)],
        "baumgarte": [None if g is None else _baumgarte(*g) for g in setting.gains] or None,
        "compliance": list(setting.compliance) or None,
        "rows": given["rows"],
        "placements": given["placements"],
        "payloads": dict(zip(request.payloads, given["payloads"], strict=True)),
    }


def _baumgarte(velocity_gain: float, position_gain: float) -> Baumgarte:
    """The constants of these gains, ``2 ζ ω`` and ``ω²``; `Rows`, which have no position errors, take any ``ω``."""
    frequency = math.sqrt(position_gain) or float(velocity_gain > 0)
    return Baumgarte(frequency, velocity_gain / (2.0 * frequency) if frequency else 0.0)
