"""Impacts: compression and decompression as two solutions of one problem with ``Δ_t = 0`` ([OS] section 7).

All contacts of the problem take part, in any formulation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from delassus.contact.formulations.problem import ContactProblem, ContactSolution
from delassus.contact.impulses import ImpulseSolver
from delassus.errors import ConfigurationError
from delassus.model.rotations import Array


@dataclass(frozen=True, slots=True, eq=False)
class Collision:
    """Outcome of an impact.

    Attributes
    ----------
    velocity : (nv,) array
        Velocities of joints after it.
    impulses : (n_u, 3) array
        Of both phases at each contact: tangent, tangent, normal, on its first link (N s).
    loops : (n_b,) array
        Impulses of both phases along the rows of loops.
    compression : ContactSolution
    decompression : ContactSolution or None
        None where no contact has restitution.
    """

    velocity: Array
    impulses: Array
    loops: Array
    compression: ContactSolution
    decompression: ContactSolution | None


def collide(problem: ContactProblem, solver: str | ImpulseSolver = "lemke", *, tolerance: float = 1e-8) -> Collision:
    """Solve for an impact.

    1. Compression: contacts stop approaching ([OS] eqs. 54 and 55).
    2. Decompression: ``ϑ = ε`` times the normal impulse of compression is given back, together with what else contacts
       need so as not to approach under it ([OS] eqs. 56 to 58). Skipped where no contact has restitution.

    Deviation: friction may reach ``μ`` times the whole normal impulse of decompression, ``ϑ`` included; in [OS] eq. 57,
    ``ϑ`` brings none, and a fast spinning ball would leave with too little of it. This phase is solved on pyramids, by
    Lemke's method.

    Parameters
    ----------
    problem : ContactProblem
        From `formulate_impact`.
    solver : str or ImpulseSolver
        As in `ContactProblem.solve`.
    tolerance : float

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
    >>> from delassus.contact import ContactSet, Scene, State, formulate_impact, frames_of
    >>> scene = Scene(ds.mechanisms.pendulum(1))
    >>> wall = ContactSet([[0, -1]], [[0, 0, -0.5]], frames_of([[1, 0, 0]]), restitution=0.5, friction=0)
    >>> problem = formulate_impact(scene, State([0], [1]), "mc", contacts=wall)
    >>> collide(problem).velocity.round(9).tolist()
    [-0.5]
    """
    if problem.dt != 0.0:
        raise ConfigurationError(
            "an impact's problem", "dt = 0", f"dt = {problem.dt:g}", "Make it with formulate_impact."
        )
    first = problem.solve(solver, tolerance=tolerance)
    restitution = problem.contacts.restitution
    if not restitution.any():
        return Collision(first.velocity, first.impulses, first.loops, first, None)
    returned = np.zeros_like(first.impulses)
    returned[:, 2] = restitution * first.impulses[:, 2]
    second = problem.restarted(first.velocity, returned).solve(solver, tolerance=tolerance)
    return Collision(second.velocity, first.impulses + second.impulses, first.loops + second.loops, first, second)
