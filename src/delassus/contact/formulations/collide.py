"""`collide`: the phases of an impact, of which each is a `ContactProblem`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from delassus.algorithms.contact.law import passive_part
from delassus.contact.formulations.problem import ContactProblem, ContactSolution
from delassus.errors import ConfigurationError, shown
from delassus.solvers.registry import TOLERANCE, ImpulseSolver
from delassus.solvers.results import SOLVED, SolverStatus
from delassus.spatial.numpy_ops import NUMPY


def collide(
    problem: ContactProblem, solver: str | ImpulseSolver = "nsgs", *, tolerance: float = TOLERANCE
) -> tuple[ContactSolution, ...]:
    """Solutions of the phases of an impact; all contacts of the problem take part.

    1. Compression: contacts stop approaching ([OS] eqs. 54 and 55).
    2. Decompression: ``ϑ = ε`` times the normal impulse of compression is given back, together with what else contacts
       need so as not to approach under it ([OS] eqs. 56 to 58). Skipped where no contact has restitution.

    The last solution has the velocities after the impact and the impulses of both phases.

    Deviations: friction may reach ``μ`` times the whole normal impulse of decompression, ``ϑ`` included; in [OS] eq.
    57, ``ϑ`` brings none, and a fast spinning ball would leave with too little of it. And kinetic energy never grows,
    as by Poisson's law it can where friction turns around in between: the largest part ``s`` of decompression is taken
    that brings none, status `SolverStatus.RESTITUTION_REDUCED`. Compression brings none, and impulses stay within their
    cones and bodies apart for every ``s``, as both are convex. Belts and loops that are driven may bring energy.

    Parameters
    ----------
    problem : ContactProblem
        From ``formulate(…, dt=0)``.
    solver, tolerance
        As in `ContactProblem.solve`.

    Raises
    ------
    UnknownNameError
        No such solver.
    ConfigurationError
        The problem is one of a time step, or the tolerance is not positive.

    References
    ----------
    [OS] section 7.

    Examples
    --------
    >>> import delassus as ds
    >>> from delassus.contact import ContactSet, Scene, State, formulate, frames_of
    >>> scene = Scene(ds.mechanisms.pendulum(1))
    >>> wall = ContactSet([[0, -1]], [[0, 0, -0.5]], frames_of([[1, 0, 0]]), restitution=0.5, friction=0)
    >>> problem = formulate(scene, State([0], [1]), "mc", dt=0, contacts=wall)
    >>> collide(problem)[-1].velocity.round(9).tolist()
    [-0.5]
    """
    if not isinstance(problem, ContactProblem):
        raise ConfigurationError("problem", "a ContactProblem", shown(problem), "Make it by formulate(…, dt=0).")
    if problem.dt != 0.0:
        raise ConfigurationError(
            "an impact's problem", "dt = 0", f"dt = {problem.dt:g}", "Make it by formulate(…, dt=0)."
        )
    if not isinstance(solver, ImpulseSolver):
        solver = ImpulseSolver(solver, problem.n_directions, tolerance)
    first = problem.solve(solver)
    restitution = problem.model.rows.restitution
    if not restitution.any():
        return (first,)
    recovered, given = restitution * first.found[2::3], np.zeros(first.found.size)
    given[2::3] = recovered
    second = replace(problem, applied=first.found + given, recovered=recovered).solve(solver)
    part = _passive_part(first, second)
    if part == 1.0:
        return first, second
    scaled = replace(problem, applied=first.found + part * given, recovered=part * recovered)
    changed = (1.0 - part) * np.abs(second._velocities - first._velocities).max() > solver.tolerance
    status = SolverStatus.RESTITUTION_REDUCED if changed and second.status in SOLVED else second.status
    return first, ContactSolution(scaled, part * second.found, status, second.iterations)


def _passive_part(first: ContactSolution, second: ContactSolution) -> float:
    """Largest part of decompression, up to 1, after which there is no more kinetic energy than before the impact.

    Energy changes by ``½ p · (u⁻ + u)``, with the impulses ``p`` of all rows and the velocities ``u`` along them: a
    quadratic function of the part.
    """
    rows = first.problem.model.rows
    if rows.loop_velocities.any() or rows.contact_velocities[: 3 * len(rows.contacts)].any():
        return 1.0
    p, q = (np.concatenate([s.loops, s._impulses.ravel()]) for s in (first, second))
    before, u, w = (rows.jacobian @ v for v in (first.problem.motion.v, first.velocity, second.velocity))
    square, linear, lost = (q - p) @ (w - u), p @ (w - u) + (q - p) @ (before + u), np.maximum(-p @ (before + u), 0.0)
    return float(cast(Any, passive_part(NUMPY, linear, square, lost)))
