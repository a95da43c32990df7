"""The bound above which a state is flagged; which kernels estimate errors by what solutions miss, which by pivots."""

from __future__ import annotations

import numpy as np

from delassus.accuracy.pivots import ByPivots
from delassus.model.check import check_number
from delassus.spatial.trace.trace_ops import TraceOps

ERROR_BOUND = {"float64": 1e-6, "float32": 1e-2}
"""Relative error above which a state is flagged, unless given."""

OFTEN = 0.1
"""Part of the usual states: where more are flagged although they are accurate, solutions estimate errors at once."""

ACCURATE = "ltl"
"""Method of hard constraints in extended precision: it eliminates no rows early."""


def are_no_guide(ops: TraceOps, found: ByPivots | None, dtype: str) -> bool:
    """Whether errors are better estimated by what solutions miss than by pivots, which cost a hundredth of that.

    Pivots are no guide where at some usual state the error is above the bound and they do not say so, or where they
    flag many states although it is not, for these are solved again.
    """
    if found is None or 0 in ops.exact:
        return False
    epsilon, bound = float(np.finfo(dtype).eps), ERROR_BOUND[dtype]
    flagged, wrong = ~(epsilon <= bound * found.at_usual), ~(epsilon * found.noise <= bound)
    return bool(np.any(wrong & ~flagged) or np.mean(flagged & ~wrong) > OFTEN)


def check_error_bound(value: float | None, dtype: str = "float64") -> float:
    """The bound, or that of the number type if None."""
    if value is None:
        return ERROR_BOUND[dtype]
    return check_number("error_bound", value, "Pass 1e-6, say, or leave it out.")
