"""Time steps with contacts: their declaration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delassus.algorithms.contact.laws import largest
from delassus.algorithms.contact.solvers import SOLVERS
from delassus.algorithms.contact.step import ContactStep, Materials
from delassus.constraints import Contact
from delassus.quantities.case import Case, stacked
from delassus.quantities.options import CONTROLLED, MOTION
from delassus.quantities.quantity import Output, Quantity


def _contact_step(case: Case) -> list[Any]:
    options, read = case.request.options, case.entries
    case.ops.new_system()
    contacts = [c for c in case.constraints if isinstance(c, Contact)]

    def of_each(name: str, given: Any, own: Sequence[float]) -> list[Any]:
        return read(name) if given == "input" else list(own) if given is None else [given] * len(own)

    friction = of_each("friction", options.friction, [c.friction for c in contacts])
    restitution = of_each("restitution", options.restitution, [c.restitution for c in contacts])
    if options.restitution != "input":  # none costs nothing
        restitution = [e or None for e in restitution]
    materials = Materials(friction, restitution)
    step = ContactStep(case.motion(), read("q"), read("v"), read("dt")[0], materials)
    q, v, impulses, residuals = step.solve(
        read("impulses"), SOLVERS[options.solver], options.sweeps, options.tolerance, options.solver == "pgs"
    )
    case.is_within = case.ops.less(largest(case.ops, residuals), options.tolerance)
    return [stacked(case, x) for x in (q, v, impulses, residuals)]


CONTACT_STEP = Quantity(
    "contact_step",
    "Time step with contacts",
    ("q", "v", "impulses", "tau", "dt"),
    (
        Output("q_next", ("nq",), "configuration after the step"),
        Output("v_next", ("nv",), "velocity after the step"),
        Output("impulses_next", ("impulses",), "impulses of the step: of each contact point tangent, tangent, normal "
               "on the first link, then of limits, then of dry friction of joints, N s and N m s"),
        Output("residuals", (3,), "violation of complementarity and of friction, and velocity of penetration, m/s"),
    ),
    _contact_step,
    options=MOTION | CONTROLLED | {"friction", "restitution", "limits", "solver", "sweeps", "tolerance"},
    states=3,
)  # fmt: skip
