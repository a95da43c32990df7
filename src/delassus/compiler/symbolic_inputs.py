"""A request on the symbols of a trace."""

from __future__ import annotations

from typing import Any

import casadi as ca

from delassus.quantities.case import Case
from delassus.quantities.request import Request
from delassus.spatial.casadi_ops import CasadiOps


def symbolic_case(asked: Request, ops: CasadiOps) -> tuple[Case, list[Any]]:
    """The request with a symbol for each number of its arguments, and one column of symbols for each, row-major."""
    symbols = [ca.SX.sym(a.name, a.size) for a in asked.arguments]
    values = {
        a.name: ca.reshape(x, a.shape[-1], -1).T if len(a.shape) == 2 else x
        for a, x in zip(asked.arguments, symbols, strict=True)
    }
    return Case(asked, ops, values), symbols
