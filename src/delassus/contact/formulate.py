"""`formulate`: the contact problem of a scene at one state, by the formulation of choice."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from delassus.contact.collision import CollisionDetector
from delassus.contact.contacts import ContactSet
from delassus.contact.formulations import FORMULATIONS
from delassus.contact.formulations.problem import ContactProblem
from delassus.contact.scene import Scene, check_scene
from delassus.contact.scene_parts import check_points_alone
from delassus.contact.snapshot import ConstraintRows, ContactDynamics, Snapshot, State
from delassus.errors import ConfigurationError, shown, unknown_name
from delassus.model.check import check_number, finite_array
from delassus.solvers.problems import check_directions
from delassus.solvers.registry import PATCHES, SOLVERS


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
    step = check_number("dt", dt, "In seconds; 0 for an impact.", above=False)
    n_directions = check_directions(n_directions)
    snapshot = _snapshot(scene, state, dynamics)
    if contacts is None:
        contacts = CollisionDetector(scene).contacts(snapshot.poses)
    elif not isinstance(contacts, ContactSet):
        raise ConfigurationError("contacts", "a ContactSet", shown(contacts), "Make one, or leave it out.")
    model = FORMULATIONS[formulation](_rows(snapshot, contacts, loop_velocities, contact_velocities))
    n = model.rows.friction.size
    return ContactProblem(model, snapshot, step, n_directions, np.zeros(3 * n), np.zeros(n))


def _snapshot(scene: Scene, state: State, dynamics: ContactDynamics | None) -> Snapshot:
    """The scene at a state, by ``dynamics`` of it if they are given."""
    if not isinstance(state, State):
        raise ConfigurationError("state", "a State", shown(state), "Make one from q, v and tau.")
    if dynamics is None:
        dynamics = _compiled(scene)
    elif not isinstance(dynamics, ContactDynamics) or dynamics.scene is not scene:
        raise ConfigurationError("dynamics", "the ContactDynamics of this scene", shown(dynamics), "Or leave it out.")
    checked = state.on(scene.tree)
    return dynamics.at(checked.q, checked.v, checked.tau)


def _rows(
    snapshot: Snapshot, contacts: ContactSet, loop_velocities: ArrayLike | None, contact_velocities: ArrayLike | None
) -> ConstraintRows:
    """Rows of loops and contacts, with velocities along them that may be given."""
    wanted, moving = np.zeros(snapshot.dynamics.n_loops), np.zeros((len(contacts), 3))
    if loop_velocities is not None:
        wanted = finite_array(loop_velocities, wanted.shape, "loop_velocities", "One for each row.")
    if contact_velocities is not None:
        moving = finite_array(contact_velocities, moving.shape, "contact_velocities", "One row for each contact.")
    return snapshot.rows(contacts, wanted, moving.ravel())


def check_formulation(scene: Scene, formulation: str | None, solver: str | None) -> tuple[str, str]:
    """Formulation and solver of the steps of a simulator; by default blocks, or [OS] if its solver is given.

    Raises
    ------
    UnknownNameError
        No such formulation, or a solver that it does not have.
    ConfigurationError
        Faces or friction of the scene that the solver does not know.
    """
    if solver is not None and not isinstance(solver, str):
        raise unknown_name("solver", solver, ("newton", *SOLVERS))
    if formulation is None:
        formulation = "blocks" if solver in (None, "newton") else "os"
    if not isinstance(formulation, str) or formulation not in ("blocks", *FORMULATIONS):
        raise unknown_name("formulation", formulation, ("blocks", *FORMULATIONS))
    if formulation != "blocks":
        if solver != PATCHES:
            check_points_alone(scene, f"solver of the formulation {formulation!r}")
        return formulation, "lemke" if solver is None else solver
    if solver not in (None, "newton"):
        raise unknown_name("solver of the formulation 'blocks'", solver, ["newton"])
    return formulation, "newton"


@lru_cache(maxsize=8)
def _compiled(scene: Scene) -> ContactDynamics:
    return ContactDynamics(scene)
