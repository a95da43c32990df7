"""Impacts: compression and decompression as two solutions of one problem with ``Δ_t = 0`` ([OS] section 7).

Pure functions on problems that `formulate_impact` made, in any formulation. All contacts of the problem take part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from delassus.contact.formulations.problem import ContactProblem
from delassus.contact.formulations.solution import ContactSolution
from delassus.contact.solvers.registry import SOLVERS
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


def compress(problem: ContactProblem, solver: str = "lemke", *, tolerance: float = 1e-8) -> ContactSolution:
    """Compression phase: contacts stop approaching ([OS] eqs. 54 and 55).

    Raises
    ------
    ConfigurationError
        The problem is one of a time step.
    """
    if problem.dt != 0.0:
        raise ConfigurationError(
            "an impact's problem", "dt = 0", f"dt = {problem.dt:g}", "Make it with formulate_impact."
        )
    return problem.solve(solver, tolerance=tolerance)


def decompress(
    problem: ContactProblem, compression: ContactSolution, solver: str = "lemke", *, tolerance: float = 1e-8
) -> ContactSolution:
    """Decompression phase: ``ϑ = ε`` times the normal impulse of compression is given back ([OS] eqs. 56 to 58).

    Deviation: friction may reach ``μ`` times the whole normal impulse of the phase, ``ϑ`` included; in [OS] eq. 57,
    ``ϑ`` brings none, and a fast spinning ball would leave with too little of it. This is solved on pyramids: by
    "lemke" where ``solver`` is one on exact cones.

    The solution holds ``ϑ``, and what else contacts needed so as not to approach under it.
    """
    returned = np.zeros((len(problem.contacts), 3))
    returned[:, 2] = problem.contacts.restitution * compression.impulses[:, 2]
    again = problem.restarted(compression.velocity, returned)
    linear = solver if SOLVERS[solver].kind == "linear" else "lemke"
    return again.solve(linear, tolerance=tolerance)


def collide(problem: ContactProblem, solver: str = "lemke", *, tolerance: float = 1e-8) -> Collision:
    """Both phases; decompression is skipped where no contact has restitution.

    Parameters
    ----------
    problem : ContactProblem
        From `formulate_impact`.
    solver : str
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
    first = compress(problem, solver, tolerance=tolerance)
    if not problem.contacts.restitution.any():
        return Collision(first.velocity, first.impulses, first.loops, first, None)
    second = decompress(problem, first, solver, tolerance=tolerance)
    return Collision(second.velocity, first.impulses + second.impulses, first.loops + second.loops, first, second)
