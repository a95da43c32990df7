"""Dynamics at once, on NumPy, for one state or a batch: the public functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.algorithms.dynamics import ITERATIVE, METHODS, energy, kinematics, options, rnea
from delassus.algorithms.dynamics.choose import check_method, default_method
from delassus.algorithms.dynamics.derivatives import derivatives
from delassus.algorithms.dynamics.iterate import iterate
from delassus.algorithms.dynamics.options import Compliance, Damping, Poses, Stabilisation, Targets, Wrenches
from delassus.algorithms.dynamics.redundancy import settle
from delassus.algorithms.dynamics.result import DynamicsDerivatives, ForwardDynamics, differentiated, solved, vector
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.evaluate import Arrays, Constraints, Payloads, make_problem
from delassus.constraints import Frame
from delassus.errors import ConstraintError, ModelError, shown
from delassus.model.check import common_batch
from delassus.model.rotations import Array
from delassus.model.tree import Tree, total_mass

GRAVITY = (0.0, 0.0, -9.81)
"""Gravity unless given, in m/s², world axes."""


def forward_dynamics(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    constraints: Constraints = (),
    *,
    method: str | None = None,
    wrenches: Wrenches = None,
    gravity: ArrayLike = GRAVITY,
    damping: Damping = None,
    targets: Targets = None,
    baumgarte: Stabilisation = None,
    poses: Poses = None,
    compliance: Compliance = None,
    tolerance: float | None = None,
    max_iterations: int | None = None,
    rows: Arrays = None,
    placements: Arrays = None,
    payloads: Payloads = None,
) -> ForwardDynamics:
    """Joint accelerations, and the forces of the constraints.

    Without targets and stabilisation, constraints ask that the velocity along their rows stay as it is: welds and
    hinges that the components of the relative twist in the axes of the first frame (or of the world,
    ``axes="world"``) do not change, points that their *classical* accelerations are equal.

    Parameters
    ----------
    tree : Tree
    q : (..., nq) array_like
        Configurations; leading axes of all arguments are batches and broadcast.
    v, tau : (..., nv) array_like
        Velocities (m/s, rad/s) and joint forces (N, N·m).
    constraints : Constraint or iterable of Constraint
        Stacked in this order; m rows in all.
    method : str, optional
        One of ``DYNAMICS_METHODS``. By default ``"aba"`` without constraints, ``"pv-soft"`` if all of them are soft,
        ``"proximal"`` if some are, else ``"pv-early"``.
    wrenches : mapping of str or Frame to (..., 6) array_like, optional
        External wrench ``[force; moment]`` (N, N·m) on a link, at the origin and in the axes of that frame.
    gravity : (..., 3) array_like
        In m/s², world axes.
    damping : (..., nv) array_like or "model", optional
        Viscous coefficients ``d``: joints resist with ``d v``. ``"model"`` takes those of the robot's description. By
        default there is none, as in Pinocchio.
    targets : list of (..., m_c) array_like or None, optional
        Acceleration along the rows of each constraint (m/s², rad/s²); None is zero.
    baumgarte : Baumgarte, float or list of these or None, optional
        Stabilisation of all constraints, or of each; a number is its frequency (1/s).
    poses : list of (..., 7) array_like or None, optional
        Where in the world the first frame of each constraint to the world should be, for stabilisation: position in m
        and unit quaternion x y z w; of a point, its position (..., 3) will do. With None, only velocities are
        stabilised. Constraints between two links need none, and ``Rows`` can have none.
    compliance : float or list of float, (..., m_c) array_like or None, optional
        Makes all constraints soft, or each: ``R`` by row, in (m/s²)/N or (rad/s²)/(N·m); its reciprocal is the weight
        of the penalty. The force is ``R⁻¹`` times the acceleration that the row falls short of what it asks for, as
        in MuJoCo (``efc_R``; its ``efc_aref`` is a target). None is hard. Methods ``"ltl-soft"`` and ``"pv-soft"``
        take soft constraints, ``"proximal"`` both, all others hard ones. Below about 1e-8, round-off of the first two
        grows as ``1 / R``, and accelerations leave those of hard constraints again; those of ``"proximal"`` do not.
    tolerance : float, optional
        ``"proximal"`` ends where an iteration changes the accelerations of the rows by less, relative to those asked
        for; 1e-12 by default.
    max_iterations : int, optional
        ``"proximal"`` ends after so many; 1000 by default.
    rows, placements, payloads
        What comes with each call, as in `delassus.delassus`.

    Returns
    -------
    ForwardDynamics
        ``qdd``, ``forces``, ``status``, ``rank``, ``redundant_rows``, ``constraint_residual()``,
        ``dynamics_residual()``, ``report()``, and of ``"proximal"`` ``iterations`` and ``residual``. Where rows are
        redundant or contradict one another, the status says so, ``redundant_rows`` and ``report()`` say which, and the
        solution is the least-squares one.

    Raises
    ------
    ConfigurationError
        An argument has the wrong shape or type, NaN, a quaternion that is not of unit length, or negative damping.
    ConstraintError, UnknownNameError
        A constraint, what it is asked for, or the method makes no sense; ``"aba"`` with constraints; a method that
        takes no soft, or no hard constraints.

    References
    ----------
    Sathya et al., "Efficient constrained dynamics algorithms based on an equivalent LQR formulation", IEEE T-RO 2024;
    the sources in each algorithm's file.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> robot = ds.mechanisms.humanoid()
    >>> feet = [ds.Weld("left_foot"), ds.Weld("right_foot")]
    >>> solution = ds.forward_dynamics(robot, robot.random(0), np.ones(robot.nv), np.zeros(robot.nv), feet)
    >>> solution.qdd.shape == (robot.nv,), len(solution.forces)
    (True, 2)
    >>> bool(abs(solution.constraint_residual()).max() < 1e-8)
    True
    """
    motion, batch = make_motion(
        tree, q, v, tau, constraints, wrenches=wrenches, gravity=gravity, damping=damping, targets=targets,
        baumgarte=baumgarte, poses=poses, compliance=compliance, rows=rows, placements=placements, payloads=payloads,
    )  # fmt: skip
    soft = motion.softness
    name = default_method(soft, ("pv-early",)) if method is None else check_method(method, soft)
    finest, most = options.check_iterations(name, tolerance, max_iterations)
    iterated = None
    with np.errstate(all="ignore"):  # states whose rows are dependent, or whose numbers overflow, are settled after it
        if name in ITERATIVE:
            solution, iterated = iterate(motion, batch, finest, most)
        else:
            solution = METHODS[name](motion)
        settled = settle(motion, solution, batch, iterated)
    return solved(motion, batch, name, settled, iterated)


def dynamics_derivatives(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    constraints: Constraints = (),
    *,
    wrenches: Wrenches = None,
    gravity: ArrayLike = GRAVITY,
    damping: Damping = None,
    targets: Targets = None,
    baumgarte: Stabilisation = None,
    poses: Poses = None,
    rows: Arrays = None,
    placements: Arrays = None,
    payloads: Payloads = None,
) -> DynamicsDerivatives:
    """Forward dynamics, and the derivatives of accelerations and forces with positions, velocities and joint forces.

    Takes what `forward_dynamics` takes for hard constraints: neither ``compliance`` nor a method, as all have the same
    derivatives. Analytic: the system that the solution fulfils is differentiated. Positions change along the tangent
    of the configuration, in the sense of ``tree.integrate(q, δ)``: for free and ball joints ``δ`` is in the frame of
    their link, as ``v`` is, which is Pinocchio's convention. Wrenches stay fixed in their frames, targets along their
    rows, poses in the world.

    Returns
    -------
    DynamicsDerivatives
        ``qdd``, ``forces``, ``status``, ``rank`` and ``redundant_rows`` as `forward_dynamics` returns them,
        ``dqdd_dq``, ``dqdd_dv``, ``dqdd_dtau`` (..., nv, nv) and ``df_dq``, ``df_dv``, ``df_dtau`` (..., m, nv), in SI
        units. Where the status is not ``SOLVED``, there are no derivatives, and they are NaN.

    Raises
    ------
    ConfigurationError, ConstraintError, UnknownNameError
        As `forward_dynamics` raises them.

    References
    ----------
    Carpentier, Mansard, "Analytical derivatives of rigid body dynamics algorithms", RSS 2018; Budhiraja et al.,
    "Differential dynamic programming for multi-phase rigid contact dynamics", Humanoids 2018.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> robot = ds.mechanisms.humanoid()
    >>> feet = [ds.Weld("left_foot"), ds.Weld("right_foot")]
    >>> found = ds.dynamics_derivatives(robot, robot.random(0), np.ones(robot.nv), np.zeros(robot.nv), feet)
    >>> found.dqdd_dq.shape == (robot.nv, robot.nv), found.df_dq.shape == (12, robot.nv)
    (True, True)
    >>> bool(abs(ds.jacobian(robot, feet, robot.random(0)) @ found.dqdd_dtau).max() < 1e-8)
    True
    """
    motion, batch = make_motion(
        tree, q, v, tau, constraints, wrenches=wrenches, gravity=gravity, damping=damping, targets=targets,
        baumgarte=baumgarte, poses=poses, rows=rows, placements=placements, payloads=payloads,
    )  # fmt: skip
    with np.errstate(all="ignore"):  # as in `forward_dynamics`
        found = derivatives(motion)
        settled = settle(motion, Solution(found.qdd, found.forces, found.delassus), batch)
    return differentiated(motion, batch, found, settled)


def make_motion(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike | None,
    tau: ArrayLike | None,
    constraints: Constraints = (),
    *,
    wrenches: Wrenches = None,
    gravity: ArrayLike = GRAVITY,
    damping: Damping = None,
    targets: Targets = None,
    baumgarte: Stabilisation = None,
    poses: Poses = None,
    compliance: Compliance = None,
    rows: Arrays = None,
    placements: Arrays = None,
    payloads: Payloads = None,
) -> tuple[DynamicsProblem, tuple[int, ...]]:
    """Check all input; returns the problem in motion, on NumPy, and the batch shape."""
    problem, batch = make_problem(tree, constraints, q, rows, placements, payloads)
    velocity = None if v is None else tree.check_velocity(v, "v")
    force = None if tau is None else tree.check_velocity(tau, "tau")
    g, d = options.check_gravity(gravity), options.check_damping(tree, damping)
    f = options.check_wrenches(tree, wrenches)
    goals = options.check_goals(problem.constraints, targets, baumgarte, poses, compliance)
    batches = [(name, a.shape[:-1]) for name, a in (("v", velocity), ("tau", force), ("damping", d)) if a is not None]
    batches.append(("gravity", g.shape[:-2]))
    batches.extend((f"wrench on {tree.link_names[i]!r}", a.shape[:-2]) for i, a in f.items())
    batches.extend(options.goal_batches(goals))
    for name, leading in batches:
        batch = common_batch(name, leading, "the arguments before it", batch)
    return DynamicsProblem(problem, velocity, force, gravity=g, wrenches=f, damping=d, goals=goals), batch


def inverse_dynamics(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    qdd: ArrayLike,
    *,
    wrenches: Wrenches = None,
    gravity: ArrayLike = GRAVITY,
    damping: Damping = None,
    payloads: Payloads = None,
) -> Array:
    """Joint forces ``τ = M q̈ + c + d v`` (..., nv) that cause given accelerations, by the Newton-Euler recursion.

    Parameters
    ----------
    tree : Tree
    q : (..., nq) array_like
        Configurations; leading axes of all arguments are batches and broadcast.
    v, qdd : (..., nv) array_like
        Velocities (m/s, rad/s) and accelerations (m/s², rad/s²).
    wrenches, gravity, damping, payloads
        As in `forward_dynamics`.

    Returns
    -------
    (..., nv) array
        In N and N·m.

    Raises
    ------
    ConfigurationError, UnknownNameError
        As `forward_dynamics` raises them.

    References
    ----------
    Featherstone, Rigid Body Dynamics Algorithms, table 5.1.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> q, v, qdd = arm.random(0), np.ones(7), np.ones(7)
    >>> tau = ds.inverse_dynamics(arm, q, v, qdd)
    >>> bool(np.allclose(ds.forward_dynamics(arm, q, v, tau).qdd, qdd))
    True
    """
    motion, batch = make_motion(
        tree, q, v, None, wrenches=wrenches, gravity=gravity, damping=damping, payloads=payloads
    )
    wanted = tree.check_velocity(qdd, "qdd")
    batch = common_batch("qdd", wanted.shape[:-1], "the arguments before it", batch)
    return vector(rnea.inverse_dynamics(motion, motion.per_joint(wanted)), batch)


def bias_force(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    *,
    wrenches: Wrenches = None,
    gravity: ArrayLike = GRAVITY,
    damping: Damping = None,
    payloads: Payloads = None,
) -> Array:
    """Joint forces ``c`` (..., nv) that keep ``q̈ = 0``: Coriolis, centrifugal, gravity, wrenches and damping.

    Takes what `inverse_dynamics` takes, without ``qdd``, and raises what it raises.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.bias_force(arm, arm.random(0), np.ones(7)).shape
    (7,)
    """
    motion, batch = make_motion(
        tree, q, v, None, wrenches=wrenches, gravity=gravity, damping=damping, payloads=payloads
    )
    return vector(rnea.inverse_dynamics(motion), batch)


def forward_kinematics(tree: Tree, q: ArrayLike, frames: str | Frame | Sequence[str | Frame] | None = None) -> Array:
    """Poses of links or frames in the world, as 4 × 4 matrices ``[[R, p], [0, 1]]``.

    Parameters
    ----------
    tree : Tree
    q : (..., nq) array_like
        Configurations; leading axes are batches.
    frames : str, Frame or sequence of these, optional
        By default the frame of each moving link, in the order of ``tree.link_names``.

    Returns
    -------
    (..., k, 4, 4) array
        One for each frame; (..., 4, 4) if ``frames`` is one. Positions in m.

    Raises
    ------
    ConfigurationError, UnknownNameError
        As `forward_dynamics` raises them.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.forward_kinematics(arm, arm.random(0, batch=100), "link7").shape
    (100, 4, 4)
    """
    problem, batch = make_problem(tree, (), q)
    single = isinstance(frames, str | Frame)
    wanted: Any = (frames,) if single else tree.link_names if frames is None else frames
    if not isinstance(wanted, list | tuple):
        raise ConstraintError("frames", "names or Frames", shown(frames), "Pass a list of link names.")
    poses = kinematics.body_poses(problem)
    out = np.empty((*batch, len(wanted), 4, 4))
    for k, frame in enumerate(wanted):
        at = frame.on(tree) if isinstance(frame, Frame) else tree.placement(frame)
        out[..., k, :, :] = kinematics.homogeneous(problem, kinematics.frame_pose(problem, poses, at))
    return out[..., 0, :, :] if single else out


def kinetic_energy(tree: Tree, q: ArrayLike, v: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Kinetic energy ``½ vᵀ M v`` (...,) in J, armature included.

    Takes ``tree``, ``q``, ``v`` and ``payloads`` as `forward_dynamics` does, and raises what that raises for them.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> q, v = arm.random(0), np.ones(7)
    >>> bool(np.isclose(ds.kinetic_energy(arm, q, v), 0.5 * v @ ds.mass_matrix(arm, q) @ v))
    True
    """
    motion, batch = make_motion(tree, q, v, None, payloads=payloads)
    return vector(energy.kinetic_energy(motion), batch)[..., 0]


def potential_energy(tree: Tree, q: ArrayLike, *, gravity: ArrayLike = GRAVITY, payloads: Payloads = None) -> Array:
    """Potential energy (...,) in J of all moving links; zero where their centre of mass is at the world's origin.

    Takes ``tree``, ``q``, ``gravity`` and ``payloads`` as `forward_dynamics` does, and raises what that raises for
    them.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.potential_energy(arm, arm.random(0, batch=5)).shape
    (5,)
    """
    motion, batch = make_motion(tree, q, None, None, gravity=gravity, payloads=payloads)
    return vector(energy.potential_energy(motion.problem, motion.gravity), batch)[..., 0]


def momentum(tree: Tree, q: ArrayLike, v: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Momentum ``[linear; angular]`` (..., 6) about the centre of mass, in world axes (kg·m/s, kg·m²/s).

    Takes ``tree``, ``q``, ``v`` and ``payloads`` as `forward_dynamics` does, and raises what that raises for them.

    Raises
    ------
    ModelError
        The robot has no mass.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.momentum(arm, arm.random(0), np.ones(7)).shape
    (6,)
    """
    motion, batch = make_motion(tree, q, v, None, payloads=payloads)
    _refuse_massless(tree, payloads)
    return vector(energy.momentum(motion), batch)


def centre_of_mass(tree: Tree, q: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Centre of mass (..., 3) of all moving links in the world, in m.

    Takes ``tree``, ``q`` and ``payloads`` as `forward_dynamics` does, and raises what that raises for them.

    Raises
    ------
    ModelError
        The robot has no mass.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.centre_of_mass(arm, arm.random(0)).shape
    (3,)
    """
    problem, batch = make_problem(tree, (), q, payloads=payloads)
    _refuse_massless(tree, payloads)
    return vector(energy.centre_of_mass(problem), batch)


def _refuse_massless(tree: Tree, payloads: Payloads) -> None:
    if not payloads and not total_mass(tree) > 0:
        raise ModelError("tree", "links that have mass", f"none in {tree.name!r}", "A centre of mass needs mass.")
