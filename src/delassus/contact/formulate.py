"""`formulate`: the contact problem of a scene at one state, by the formulation of choice."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from delassus.contact.collision import CollisionDetector
from delassus.contact.contacts import ContactSet
from delassus.contact.formulations import FORMULATIONS
from delassus.contact.formulations.problem import ContactProblem
from delassus.contact.problems import check_directions
from delassus.contact.scene import Scene, check_scene
from delassus.contact.snapshot import ContactDynamics, State
from delassus.errors import ConfigurationError, shown, unknown_name
from delassus.model.check import check_number, finite_array


def formulate(
    scene: Scene,
    state: State,
    formulation: str = "os",
    *,
    dt: float = 1e-3,
    contacts: ContactSet | None = None,
    n_directions: int = 4,
    dynamics: ContactDynamics | None = None,
    loop_velocities: ArrayLike | None = None,
    contact_velocities: ArrayLike | None = None,
) -> ContactProblem:
    """Build the complementarity problem of one time step, or of an impact.

    Parameters
    ----------
    scene : Scene
    state : State
        At the start of the step.
    formulation : {"os", "nmc-os", "rmc", "mc", "nmc"}
        How the problem is built; all have the same solutions.
    dt : float
        Time step (s), 1 ms by default as in `Simulator`. 0 for the problem of an instant, that of compression ([OS] eq.
        54), which `delassus.contact.collide` solves, decompression included.
    contacts : ContactSet, optional
        Detected in the scene if not given.
    n_directions : int
        ``n_f``: sides of the pyramids that stand for friction cones, an even number.
    dynamics : ContactDynamics, optional
        Of this scene; saves a look-up, or its compilation.
    loop_velocities : (n_b,) array_like, optional
        ``U``: velocities along the rows of the scene's loops at the end of the step; zero by default.
    contact_velocities : (n_u, 3) array_like, optional
        Added velocities of the second bodies' surfaces (conveyor belts), or rates at which overlaps are to be left;
        zero by default.

    Raises
    ------
    UnknownNameError
        No such formulation.
    ConfigurationError
        Sizes of the state, contacts or velocities that are not those of the scene; ``dt < 0``; an odd ``n_directions``.
    ModelError
        A link that cannot be a body of its own, for ``"nmc-os"``.
    MissingDependencyError
        The extra ``contact`` is not installed.

    References
    ----------
    [OS] eqs. 27, 36, 41, 53, 54 and section 8.

    Examples
    --------
    >>> import delassus as ds
    >>> from delassus.contact import ContactSet, Scene, State, formulate, frames_of
    >>> scene = Scene(ds.mechanisms.pendulum(3))
    >>> wall = ContactSet([[2, -1]], [[0, 0, -1.5]], frames_of([[1, 0, 0]]))
    >>> state = State([0, 0, 0], [0, 0, 1])
    >>> problem = formulate(scene, state, "os", dt=1e-3, contacts=wall)
    >>> problem.size, problem.solve().status.name
    (6, 'CONVERGED')
    >>> formulate(scene, state, "nmc", dt=1e-3, contacts=wall).size
    39
    """
    if not isinstance(formulation, str) or formulation not in FORMULATIONS:
        raise unknown_name("formulation", formulation, FORMULATIONS)
    check_scene(scene)
    if not isinstance(state, State):
        raise ConfigurationError("state", "a State", shown(state), "Make one from q, v and tau.")
    step = check_number("dt", dt, "In seconds; 0 for an impact.", above=False)
    n_directions = check_directions(n_directions)
    if dynamics is None:
        dynamics = _compiled(scene)
    elif not isinstance(dynamics, ContactDynamics) or dynamics.scene is not scene:
        raise ConfigurationError("dynamics", "the ContactDynamics of this scene", shown(dynamics), "Or leave it out.")
    checked = state.on(scene.tree)
    snapshot = dynamics.at(checked.q, checked.v, checked.tau)
    if contacts is None:
        contacts = CollisionDetector(scene).contacts(snapshot.poses)
    elif not isinstance(contacts, ContactSet):
        raise ConfigurationError("contacts", "a ContactSet", shown(contacts), "Make one, or leave it out.")
    wanted, moving = np.zeros(dynamics.n_loops), np.zeros((len(contacts), 3))
    if loop_velocities is not None:
        wanted = finite_array(loop_velocities, wanted.shape, "loop_velocities", "One for each row.")
    if contact_velocities is not None:
        moving = finite_array(contact_velocities, moving.shape, "contact_velocities", "One row for each contact.")
    model = FORMULATIONS[formulation](snapshot.rows(contacts, wanted, moving.ravel()))
    n = model.rows.friction.size
    return ContactProblem(model, snapshot, step, n_directions, np.zeros(3 * n), np.zeros(n))


@lru_cache(maxsize=8)
def _compiled(scene: Scene) -> ContactDynamics:
    return ContactDynamics(scene)
