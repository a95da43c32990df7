"""Whether a contact step was right, whoever made it.

With the velocities ``u = J v⁺ + d`` and impulses ``p``, where ``d`` is ``max(φ, 0) / dt`` along normals, a step obeys

- momentum, ``M (v⁺ − v⁻) = Jᵀ p + dt f``;
- Coulomb's law, ``K_μ ∋ p ⊥ u + s ∈ K_μ*`` with ``s = (0, 0, μ |u_t|)``, in the measure that solvers here are held to,
  ``|ω p − P_K(ω p − u − s)|`` (m/s) with the mean mobility ``ω`` of the contact;
  torsional and rolling friction are part of one vector with that of the tangents. Impulses of such contacts along
  axes without friction violate it by the velocities that they make.

All other checks are parts of these two in units of their own. Where the law is violated by ``ε``, ``ω p`` and ``u + s``
are within ``ε`` of a solution: approach, complementarity and cone are then violated by at most ``(1 + μ) ε`` and
friction by ``(3 + μ) ε``, as projections do not stretch. Each part is allowed the last of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.algorithms.contact.law import PENETRATION
from delassus.contact.audits.mujoco import Softness, mujoco_step
from delassus.contact.audits.step import ContactStep
from delassus.contact.formulations.problem import ContactSolution
from delassus.errors import ConfigurationError
from delassus.frozen import Explained, Frozen
from delassus.model.check import check_number
from delassus.model.kinematics import HEAVY
from delassus.solvers.linear import ROUNDING, cone_distance, de_saxce, natural_map
from delassus.solvers.registry import TOLERANCE
from delassus.spatial.rotations import Array


class Verdict(Explained):
    """Whether a step was right; the text says what that means.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.contact.Verdict.RIGHT.text
    'every check holds to the tolerance'
    """

    RIGHT = "every check holds to the tolerance"
    SOFT = "contacts are soft: they violate the law of hard ones as the simulator's own equations say, which are solved"
    UNSOLVED = (
        "the simulator's own equations are not solved to the tolerance: let its solver iterate on, without noslip"
    )
    WRONG = "a check fails that nothing explains: impulses, velocities and data do not belong together"


VERDICTS = np.array([*Verdict], dtype=object)
"""By severity; checks hold their indices."""
SOFT, UNSOLVED, WRONG = 1, 2, 3
TINY = float(np.finfo(float).tiny)


class Check(NamedTuple):
    """A check at k places: ``size`` (..., k) in a unit, ``relative`` to what is tolerated, verdicts where it fails."""

    name: str
    unit: str
    size: Array
    relative: Array
    names: Sequence[str]
    cause: Any

    @property
    def severity(self) -> NDArray[np.int64]:
        """Indices (..., k) of verdicts."""
        return np.where(self.relative <= 1.0, 0, self.cause)  # NaN fails

    @property
    def worst(self) -> tuple[float, float, Verdict, str]:
        """Size, multiple of what is tolerated, verdict and name of the worst place of all."""
        if not self.relative.size:
            return 0.0, 0.0, Verdict.RIGHT, "–"
        relative, severity = np.where(np.isnan(self.relative), np.inf, self.relative), self.severity
        at = np.unravel_index(np.argmax(np.where(severity == severity.max(), relative, -np.inf)), severity.shape)
        return float(self.size[at]), abs(max(float(relative[at]), 0.0)), VERDICTS[severity[at]], self.names[int(at[-1])]


@dataclass(frozen=True, eq=False)
class Audit(Frozen):
    """What `audit` found; ``str`` of it is a table.

    Attributes
    ----------
    step : ContactStep
    softness : Softness, optional
        Of a simulator whose contacts are soft: its own equations, and how far they are from the law, by cause.
    checks : dict of str to Check
        Of each, ``size`` (..., k) are violations in ``unit`` at its k ``names``, and ``worst`` is the worst of all.

    Examples
    --------
    A box that slides, and friction that pushes it on:

    >>> import numpy as np
    >>> from delassus.contact import ContactStep, audit
    >>> p = [[0.02, 0, 0.0981]]
    >>> step = ContactStep(np.eye(3), np.eye(3), [1, 0, 0], [1.02, 0, 0], p, [0.5], [0], 0.01, [0, 0, -9.81])
    >>> found = audit(step)
    >>> found.verdict.name, [name for name, check in found.checks.items() if check.worst[1] > 1]
    ('WRONG', ['friction', 'dissipation', 'work of contacts', 'law'])
    """

    step: ContactStep
    softness: Softness | None
    checks: dict[str, Check]

    @property
    def verdict(self) -> Verdict | NDArray[np.object_]:
        """`Verdict` of the worst of all checks; (...) array of them for a batch of steps."""
        worst = [check.severity.max(axis=-1, initial=0) for check in self.checks.values()]
        found: Verdict | NDArray[np.object_] = VERDICTS[np.max(worst, axis=0)]
        return found

    def __str__(self) -> str:
        rows = [("check", "worst", "of tolerated", "verdict", "at")]
        for name, check in self.checks.items():
            size, relative, verdict, at = check.worst
            rows.append((name, f"{size:.2e} {check.unit}", f"{relative:.1e}", verdict.name, at))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def audit(model: Any, data: Any = None, *, tolerance: float = TOLERANCE, penetration: float = PENETRATION) -> Audit:
    """Check a contact step, whoever made it, against the law of contact.

    Parameters
    ----------
    model : ContactStep, ContactSolution or mujoco.MjModel
        A step as arrays, batched over states; one of ours; or a model.
    data : mujoco.MjData, optional
        Of a model: the state before the step. A copy of it takes ``mj_step``, and that is checked.
    tolerance : float
        Velocity (m/s, rad/s) that violations are held to.
    penetration : float
        Depth (m) that bodies may overlap.

    Raises
    ------
    ConfigurationError
        None of these, or a tolerance that is not positive; of MuJoCo, an integrator but Euler and implicit ones, or
        contacts of flexible bodies.
    MissingDependencyError
        MuJoCo is not installed.

    Examples
    --------
    >>> import delassus as ds
    >>> from delassus.contact import ContactSet, Scene, State, audit, formulate, frames_of
    >>> floor = ContactSet([[0, -1]], [[0, 0, 0]], frames_of([[0, 0, 1]]))
    >>> falling = State([0, 0, 0, 0, 0, 0, 1], [1, 0, -1, 0, 0, 0])
    >>> scene = Scene(ds.mechanisms.free_body(2.0, [0.1, 0.1, 0.1]))
    >>> audit(formulate(scene, falling, "os", dt=0.01, contacts=floor).solve("nsgs")).verdict.name
    'RIGHT'
    """
    check_number("tolerance", tolerance, "In m/s.")
    check_number("penetration", penetration, "In m.")
    step, softness = (model, None) if data is None else mujoco_step(model, data)
    if isinstance(model, ContactSolution):
        step = _step_of(model)
    if not isinstance(step, ContactStep):
        expected = "a ContactStep, a ContactSolution, or a mujoco.MjModel with its MjData"
        raise ConfigurationError("model", expected, type(model).__name__, "Arrays of anyone make a ContactStep.")
    with np.errstate(all="ignore"):
        checks = _checks(step, softness, tolerance, penetration)
    return Audit(step, softness, {check.name: check for check in checks})


def _checks(s: ContactStep, soft: Softness | None, tol: float, penetration: float) -> list[Check]:
    """All checks: of each, the tolerance as a velocity is taken to its unit by masses and mobilities."""
    (p, u), omega, mu, stray = s.in_plane(s.v_after), s.mobility, s.cone, s.stray
    flat, (pn, un), part = np.array([1.0, 1.0, 0.0]), (p[..., 2], u[..., 2]), (3.0 + mu) * tol

    def violation(p: Array, v: Array, mu: Array, offset: Array) -> Array:
        """``|ω p − P_K(ω p − v)|`` (..., n)."""
        steps = natural_map(p.reshape(-1, 3), v.reshape(-1, 3), mu.ravel(), offset.ravel(), omega.ravel())
        return np.asarray(np.linalg.norm(steps, axis=-1).reshape(pn.shape))

    def moves(r: Array) -> Array:
        """Largest velocity (..., 1) that momentum makes."""
        return np.asarray(np.abs(np.linalg.solve(s.M, r[..., None])).max(axis=-2, initial=0.0))

    law = np.hypot(violation(p, de_saxce(u.reshape(-1, 3), mu.ravel()), mu, s.friction_offset), stray)
    friction = violation(p * flat, u * flat, 0.0 * mu, mu * np.maximum(pn, 0.0) + s.friction_offset)
    friction = np.hypot(friction, stray)
    beyond = cone_distance(p.reshape(-1, 3), mu.ravel()).reshape(pn.shape) - s.friction_offset
    beyond = np.where(stray > 0.0, np.maximum(beyond, stray / omega), beyond)
    pt, power = np.hypot(p[..., 0], p[..., 1]), (p * u * flat).sum(axis=-1)
    pushed = np.minimum(omega * pt, power / np.where(pt > 0.0, pt, 1.0))
    # momentum, and what it means for energy: the change of ½ vᵀ M v less the work of all forces and impulses
    flat_p, angular = (x.reshape(*x.shape[:-2], 3 * x.shape[-2], 1) for x in (s.impulses, s.angular_impulses))
    known = (s.J.mT @ flat_p)[..., 0] + (s.J_angular.mT @ angular)[..., 0] + s.dt * s.force
    r, mean = (s.M @ (s.v_after - s.v_before)[..., None])[..., 0] - known, 0.5 * (s.v_before + s.v_after)
    sizes = np.abs(s.M) @ (np.abs(s.v_before) + np.abs(s.v_after))[..., None] + np.abs(s.J.mT) @ np.abs(flat_p)
    sizes = sizes + np.abs(s.J_angular.mT) @ np.abs(angular)
    r = np.where(np.abs(r) <= ROUNDING * (sizes[..., 0] + s.dt * np.abs(s.force)), 0.0, r)
    at_most = np.abs(r).max(axis=-1, keepdims=True, initial=0.0)
    balance = np.abs((mean * r).sum(axis=-1, keepdims=True))
    inertia = np.abs(s.M @ mean[..., None]).sum(axis=-2)
    # what impulses add to the energy of the motion without them, u* → u⁺: ½ pᵀ (u* + u⁺), relative to surfaces
    free = s.v_before + s.dt * np.linalg.solve(s.M, s.force[..., None])[..., 0]
    both = s.along(free) + s.along(s.v_after) + 2.0 * s.velocity_offset * flat
    turned = (angular * (s.J_angular @ (free + s.v_after)[..., None])).sum(axis=(-2, -1))
    work = 0.5 * ((s.impulses * both).sum(axis=(-2, -1)) + turned)[..., None]
    reach = (part * (np.linalg.norm(p, axis=-1) + np.linalg.norm(u, axis=-1) / omega)).sum(axis=-1)[..., None]
    own, moved, at = np.full(pn.shape, WRONG), np.full(at_most.shape, WRONG), s.names
    if soft is not None:
        own[...] = np.where(soft.residual[: len(at)] <= tol, SOFT, UNSOLVED)
        left = [moves(r - soft.integrator - x) <= tol for x in (0.0, soft.unsolved)]
        moved = np.select(left, [np.array(SOFT), np.array(UNSOLVED)], WRONG)
    every, whole = own.max(axis=-1, keepdims=True, initial=0), ("the step",)
    dofs = tuple(f"degree of freedom {i}" for i in range(r.shape[-1]))
    checks = [
        Check("momentum", "N s", np.abs(r), np.abs(r) / np.maximum(at_most, TINY) * moves(r) / tol, dofs, moved),
        Check("overlap", "m", -s.gaps, -s.gaps / penetration, at, own),
        Check("approach", "m/s", -un, -un / part, at, own),
        Check("adhesion", "N s", -pn, -omega * pn / part, at, WRONG),
        Check("complementarity", "J", np.maximum(pn, 0.0) * un, np.minimum(omega * pn, un) / part, at, own),
        Check("cone", "N s", beyond, omega * beyond / part, at, WRONG),
        Check("friction", "m/s", friction, friction / part, at, own),
        Check("dissipation", "J", power, pushed / part, at, own),
        Check("work of contacts", "J", work, work / np.maximum(reach, TINY), whole, every),
        Check("energy balance", "J", balance, balance / np.maximum(tol * inertia, TINY), whole, moved),
        Check("law", "m/s", law, law / tol, at, own),
    ]
    if soft is not None:
        checks.append(Check("own equations", "m/s", soft.residual, soft.residual / tol, soft.names, UNSOLVED))
    return [check._replace(size=np.maximum(check.size, 0.0)) for check in checks]


def _step_of(solution: ContactSolution) -> ContactStep:
    """A solution of ours; forces of loops, and impulses that restitution gives back, are among those known."""
    problem, start, rows = solution.problem, solution.problem.motion, solution.problem.model.rows
    dt = problem.dt or 1.0  # an impact takes no time, and nothing depends on it
    known = rows.jacobian.T @ np.concatenate([solution.loops, problem.applied]) + start.momentum(problem.dt)
    M, J, velocities, found = start.mass_matrix, rows.jacobian, rows.contact_velocities, solution.found.ravel()
    if moved := start.dynamics.moved:  # what moves them holds them against impulses
        on, M = np.zeros((len(velocities), len(M))), M.copy()
        on[: 3 * len(problem.contacts)] = start.moved_rows(problem.contacts)
        J, velocities = np.concatenate([J[: rows.n_loops], J[rows.n_loops :] + on]), velocities + on @ start.v
        known = known - on.T @ found
        for link in [] if start.dynamics.is_tied else moved:
            dofs = start.dynamics.tree.v_slices[link]
            M[dofs, dofs] *= HEAVY
            known[dofs] += M[dofs, dofs] @ start.v[dofs] * (1.0 - 1.0 / HEAVY)
    gaps = np.zeros(rows.friction.size)
    gaps[: len(problem.contacts)] = -problem.contacts.depths
    return ContactStep(
        M, J[rows.n_loops :], start.v, solution.velocity, found.reshape(-1, 3), rows.friction, gaps, dt,
        (known - M @ start.v) / dt, problem.friction_offset, -velocities.reshape(-1, 3),
    )  # fmt: skip
