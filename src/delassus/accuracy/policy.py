"""Which kernels judge solutions by what they miss and which by pivots; which method takes states that one fails at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from delassus.accuracy.estimate import ERROR_BOUND, Request, rcond_of, usual_states
from delassus.algorithms.dynamics import ITERATIVE, SOFT, UNCONSTRAINED
from delassus.spatial.interpret import interpret
from delassus.spatial.trace_ops import TraceOps

OFTEN = 0.1
"""Part of the usual states: where more are flagged and judged again, all are better judged at once."""

ACCURATE = "ltl"
"""Method of hard constraints that takes states at which others are not accurate: it eliminates no rows early."""

LONGEST = 300_000
"""Nodes of a trace of `ACCURATE` up to which it is made: it takes a second, compiling it some minutes."""


def judged(asked: Request, dtype: str, case_of: Callable[[Request, TraceOps], Any]) -> Request:
    """The request, judged by what its solutions miss where pivots are no guide; ``case_of`` traces one.

    Pivots cost a hundredth of that. They are no guide where at some usual state the error is above the bound and they
    do not say so, or where they flag many states although the error is not.
    """
    if not asked.solves or asked.judged_in:
        return asked
    ops, by_misses, bound = TraceOps(), replace(asked, judged_in=dtype), ERROR_BOUND[dtype]
    case = case_of(by_misses, ops)
    outputs = [ops.nodes(a) for a in asked.quantity.run(case)]
    rcond = rcond_of(asked, ops, outputs)
    if rcond is None or 0 in ops.exact:
        return asked
    error = reduce(ops.maximum, case.errors)
    graph = ops.graph([[ops.number(x)] for x in (rcond, error)])
    states = np.concatenate(usual_states(asked)).astype(dtype)
    with np.errstate(all="ignore"):
        by_pivots, found = (np.asarray(x)[:, 0] for x in interpret(graph, states))
        flagged, wrong = ~(np.finfo(dtype).eps <= bound * by_pivots), ~(found <= bound)
    is_deaf, is_shy = np.any(wrong & ~flagged), np.mean(flagged & ~wrong) > OFTEN
    return by_misses if is_deaf or is_shy else asked


def next_method(asked: Request, tried: Sequence[str]) -> str | None:
    """Method of forward dynamics that takes states that those ``tried`` fail at, compiled; None: nothing is left.

    `ACCURATE` loses nothing where pivots are small; "proximal" takes rows that depend on one another.
    """
    if asked.method in UNCONSTRAINED or not asked.quantity.methods:
        return None
    left = ["pv-early"] if asked.method in SOFT else []
    left += [] if is_long(asked) else [ACCURATE]
    left += [] if all(asked.options.soft) else [*ITERATIVE]
    return next((name for name in left if name not in tried), None)


def is_long(asked: Request) -> bool:
    """Whether a trace of `ACCURATE` has more than `LONGEST` nodes: ``n d² + m² d + m³``, as loops fill its matrices."""
    tree, m = asked.tree, sum(c.size for c in asked.constraints)
    d = max((sum(len(tree.joints[j].motion_axes) for j in tree.support(i)) for i in range(tree.n_links)), default=0)
    return bool(tree.nv * d**2 + m**2 * d + m**3 > LONGEST)
