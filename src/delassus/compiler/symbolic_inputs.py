"""A request on the symbols of a trace."""

from __future__ import annotations

from delassus.quantities.case import Case
from delassus.quantities.request import Request
from delassus.spatial.trace_ops import TraceOps


def symbolic_case(asked: Request, ops: TraceOps) -> Case:
    """The request with an input of the trace for each number of its arguments, row-major."""
    values = {a.name: ops.unknown(*a.shape) if len(a.shape) == 2 else ops.vector(a.size) for a in asked.arguments}
    return Case(asked, ops, values)
