"""Types of what users hand over, as text that type checkers read; `tests/test_names.py` holds it to the registries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from numpy.typing import ArrayLike

from delassus.algorithms.dynamics import DynamicsAlgorithm
from delassus.algorithms.osim import OsimAlgorithm
from delassus.constraints import Constraint, Frame
from delassus.constraints.sensors import Sensors
from delassus.quantities.gains import Baumgarte

What = Literal[
    "delassus", "osim", "consistent_inverse", "delassus_product", "delassus_solution", "damped_solution", "mass_matrix",
    "coriolis_matrix", "jacobian", "impulse", "kinematics", "frame_jacobian", "frame_velocity", "frame_acceleration",
    "jacobian_drift", "energies", "kinetic_energy", "potential_energy", "momentum", "momentum_jacobian",
    "momentum_drift", "momentum_rate", "centre_of_mass", "centre_of_mass_jacobian", "centre_of_mass_drift",
    "close_loops", "reduced_dynamics", "dynamics", "dynamics_derivatives", "inverse_dynamics", "bias_force",
    "inverse_dynamics_derivatives", "control", "step", "step_derivatives", "regressor", "inertial_derivatives",
    "sensors", "contact_step", "contact_step_derivatives", "constraint_errors", "integrate", "difference",
    "forward_dynamics", "forward_kinematics",
]  # fmt: skip
"""Names that `delassus.compile` takes."""

OsimMethod = Literal[OsimAlgorithm, "auto"]
DynamicsMethod = Literal[DynamicsAlgorithm, "auto"]
Method = Literal[OsimAlgorithm, DynamicsAlgorithm, "auto"]
"""Names that ``method=`` takes."""


Flags = bool | Sequence[bool]
Constraints = Iterable[Constraint] | Constraint | None
Payloads = Mapping[str, ArrayLike] | None
Stabilisation = Baumgarte | float | Sequence[Baumgarte | float | None] | None
Passive = Literal["model", "none"]
Control = Literal["tau", "actuators", "pd"]
Compliance = float | Sequence[ArrayLike | None] | None
Frames = str | Frame | Sequence[str | Frame] | None
Reference = Literal["local", "world", "local-world-aligned"]
Integrator = Literal["semi-implicit", "rk4"]
Solver = Literal["nsgs", "pgs", "admm"]


class Arrays(TypedDict, total=False):
    """Arguments of constraints and payloads, as keywords of the direct functions; explained in `delassus.delassus`."""

    rows: Sequence[ArrayLike] | None
    placements: Sequence[ArrayLike] | None
    payloads: Payloads


class Motion(TypedDict, total=False):
    """Forces of the surroundings, as keywords of the direct functions; explained in `delassus.forward_dynamics`."""

    wrenches: Mapping[str | Frame, ArrayLike] | None
    gravity: ArrayLike | None
    passive: Passive
    damping: ArrayLike


class ConstrainedMotion(Arrays, Motion, total=False):
    """`Motion`, goals of constraints, which of them act, and the source of joint forces."""

    targets: Sequence[ArrayLike | None] | None
    baumgarte: Stabilisation
    poses: Sequence[ArrayLike | None] | None
    active: ArrayLike
    control: Control
    kp: ArrayLike
    kd: ArrayLike
    v_target: ArrayLike


class Keywords(TypedDict, total=False):
    """Options of `delassus.compile`; the table there says which quantity takes which.

    They mean what they do in `delassus.forward_dynamics`; numbers are built in, and ``"input"`` asks for an argument.

    Attributes
    ----------
    gravity : (3,) array_like or "input"
        ``"input"`` makes it the argument ``gravity``.
    passive : {"model", "none"}
    damping : (nv,) array_like or "input"
        ``"input"`` makes it the argument ``damping``.
    control : {"tau", "actuators", "pd"}
        What stands in the place of ``tau``: ``"actuators"`` makes it ``ctrl`` (nu,), ``"pd"`` makes it ``q_target``
        (nq,), ``kp`` and ``kd`` (nv,).
    v_target : bool
        Whether velocities that ``control="pd"`` damps towards are the argument ``v_target`` (nv,); else they are zero.
    wrenches : sequence of str or Frame
        Links or frames on which an external wrench acts: the argument ``wrench{i}`` (6,) of the i-th.
    targets : bool or sequence of bool
        Whether the acceleration along the rows of all constraints, or of each, is an argument: ``target{i}`` (m_i,).
    baumgarte : Baumgarte, float or sequence of these or None
    poses : bool or sequence of bool
        Whether the place in the world that position errors are relative to is an argument: ``pose{i}`` (7,) or, of a
        point, (3,). ``True`` asks for those of all stabilised constraints to the world.
    compliance : float or sequence of float, (m_i,) array_like, "input" or None
        ``"input"`` makes it the argument ``compliance{i}`` (m_i,).
    active : bool
        Whether constraints can be switched off state by state: the argument ``active`` (n_constraints,) holds 1 for a
        constraint that acts and 0 for one that leaves no trace in the result and has no force.
    impacts : bool
        Whether steps begin with impacts: the argument ``impacts`` (n_constraints,) holds 1 for a constraint whose rows
        come to rest by impulses first, as of a foot that has just touched down, and 0 for one whose rows keep their
        velocities. All that act take impulses.
    frames : str, Frame or sequence of these
        Whose poses, twists, accelerations or Jacobians are computed; those of all links if not given.
    sensors : str, Sensor or sequence of these
        What "sensors" measures, in this order: sensors of the tree by name, or others; ``tree.sensors`` if not given.
        Of contact steps, with ``outputs=(…, "sensors")``.
    reference : {"local", "world", "local-world-aligned"}
        Where motions of frames are measured, and along which axes; "local" if not given. See `delassus.frame_velocity`.
    independent : sequence of str
        Names of joints whose velocities determine all others in "reduced_dynamics"; those of ``tree.independent`` if
        not given, with the constraints that are.
    output : Constraint or sequence of Constraint
        Rows that the mechanism of "reduced_dynamics" is to move: where they move in fewer directions than elsewhere,
        the singularity is that of the output.
    hold : sequence of str
        Names of joints whose coordinates stay where they are in "close_loops".
    motors : sequence of str or "actuated"
        Joints that motors drive in "inverse_dynamics", which then takes constraints into account; see there.
    weights : (nv + m,) array_like or "input"
        Of squares of joint forces and of constraint forces in "inverse_dynamics"; ones if not given. Of "control" those
        of contacts.
    contacts : Constraint or sequence of Constraint
        What holds the robot of "control" while it does its tasks, such as feet on the ground.
    kp, kd : float, (m_i,) array_like or "input", or a sequence of these
        Gains of all tasks of "control", or of each, along their rows; 100/s² and 20/s if not given. ``"input"`` makes
        them the arguments ``kp{i}`` and ``kd{i}`` (m_i,).
    impedance : bool, or sequence of bool or (m_i,) array_like
        Whether gains and targets of the rows of all tasks, or of each, are of forces, in "control".
    posture : bool
        Whether the configuration that joints are drawn to in "control" is the argument ``posture`` (nq,).
    posture_kp, posture_kd : float, (nv,) array_like or "input"
        Gains of that; 10/s² and 6.3/s if not given.
    integrator : {"semi-implicit", "rk4"}
        Of "step" and "step_derivatives"; forces of "rk4" along points between two links are internal, as of loops.
    friction, restitution : float or "input"
        Of all contacts of "contact_step", in place of their own; ``"input"`` makes it the argument of that name
        (n_contacts,), one number for each `Contact`. Restitution of "impulse", 0 if not given, and friction of
        "inverse_dynamics" are those of constraints (n_constraints,), of "control" those of its contacts.
    smoothing : float or "input"
        Of "contact_step_derivatives" and of derivatives of "contact_step", which stays as it is: means over changes of
        velocities of contacts and joints by up to so many m/s (rad/s), in which those take part that are about to
        touch, slide or part; 0 if not given, derivatives of the step as it is. ``"input"`` makes it the argument
        ``smoothing``, whose own derivative is zero.
    limits : bool
        Whether joints stay within limits in "contact_step", and joint forces in "control"; True if not given.
    solver : {"nsgs", "pgs", "admm"}
        Of "contact_step": sweeps over contacts with friction cones, or with pyramids of four sides; or alternating
        directions, for rows that are redundant, as of flat feet.
    sweeps : int
        Most sweeps of a step; 30 if not given.
    tolerance : float
        Residual (m/s) of a step above which it is flagged; 1e-4 if not given. Sweeps end at a tenth of it.
    penetration : float
        Overlap (m) of contacts that "contact_step" leaves alone; 1e-4 if not given, as of `Simulator`.
    """

    gravity: ArrayLike | Literal["input"]
    passive: Passive
    damping: ArrayLike | Literal["input"]
    control: Control
    v_target: bool
    wrenches: Iterable[str | Frame]
    targets: Flags
    baumgarte: Stabilisation
    poses: Flags
    compliance: Compliance | Literal["input"]
    active: bool
    impacts: bool
    frames: Frames
    sensors: Sensors
    reference: Reference
    independent: Iterable[str] | None
    output: Constraints
    hold: Iterable[str]
    motors: Iterable[str] | Literal["actuated"] | None
    weights: ArrayLike | Literal["input"]
    contacts: Constraints
    kp: Any
    kd: Any
    impedance: Any
    posture: bool
    posture_kp: ArrayLike | Literal["input"]
    posture_kd: ArrayLike | Literal["input"]
    integrator: Integrator
    friction: float | Literal["input"]
    restitution: float | Literal["input"]
    smoothing: float | Literal["input"]
    limits: bool
    solver: Solver
    sweeps: int
    tolerance: float
    penetration: float
