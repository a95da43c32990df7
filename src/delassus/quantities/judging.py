"""Which kernels judge solutions by what they miss, and which by pivots."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np

from delassus.quantities.case import symbolic_case
from delassus.quantities.error_estimate import ERROR_BOUND, rcond_of, usual_states
from delassus.quantities.request import Request
from delassus.spatial.interpret import interpret
from delassus.spatial.trace_ops import TraceOps

OFTEN = 0.1
"""Part of the usual states: where more are flagged and judged again, all are better judged at once."""


def judged(asked: Request, dtype: str) -> Request:
    """The request, judged by what its solutions miss where pivots are no guide.

    Pivots cost a hundredth of that. They are no guide where at some usual state the error is above the bound and they
    do not say so, or where they flag most states although the error is not. Contact steps say themselves how far they
    come, and what is round-off in numbers of this type.
    """
    if "sweeps" in asked.quantity.options and not asked.derivative:
        return replace(asked, judged_in=dtype)
    if not asked.solves or asked.judged_in:
        return asked
    ops, by_misses, bound = TraceOps(), replace(asked, judged_in=dtype), ERROR_BOUND[dtype]
    case = symbolic_case(by_misses, ops)
    outputs = [ops.nodes(a) for a in asked.quantity.run(case)]
    rcond = rcond_of(asked, ops, outputs)
    if rcond is None or 0 in ops.exact:
        return asked
    error = reduce(ops.maximum, case.errors)
    graph = ops.graph([[ops.number(x)] for x in (rcond, error)])
    with np.errstate(all="ignore"):
        by_pivots, found = (np.asarray(x)[:, 0] for x in interpret(graph, usual_states(asked).astype(dtype)))
        flagged, wrong = ~(np.finfo(dtype).eps <= bound * by_pivots), ~(found <= bound)
    is_deaf, is_shy = np.any(wrong & ~flagged), np.mean(flagged & ~wrong) > OFTEN
    return by_misses if is_deaf or is_shy else asked
