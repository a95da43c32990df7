"""Types of what users hand over, as text that type checkers read; `tests/test_names.py` holds it to the registries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from delassus.algorithms.dynamics import DynamicsAlgorithm
from delassus.algorithms.osim import OsimAlgorithm
from delassus.constraints import Constraint, Frame
from delassus.constraints.sensors import Sensors
from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import real_array


@dataclass(frozen=True, slots=True)
class Baumgarte(Frozen):
    """Stabilisation: constraints ask for the acceleration ``−2 ζ ω (velocity error) − ω² (position error)``.

    Parameters
    ----------
    frequency : float
        ``ω``, in 1/s: errors die out as ``exp(−ω t)``; at most about 1 / (time step).
    damping : float
        Ratio ``ζ``; 1 is critical.

    Raises
    ------
    ConfigurationError
        A number that is negative or not finite, or gains that are not.

    Examples
    --------
    >>> Baumgarte(20.0).gains
    (40.0, 400.0)
    """

    frequency: float
    damping: float = 1.0

    def __post_init__(self) -> None:
        for name in ("frequency", "damping"):
            number = real_array(getattr(self, name))
            if number is None or number.shape != () or not np.isfinite(number) or number < 0:
                raise ConfigurationError(
                    f"{name} of Baumgarte", "a number that is not negative", shown(getattr(self, name)), "Try 20 and 1."
                )
            self._set_attributes(**{name: float(number)})
        if not max(self.gains) < np.inf:
            raise ConfigurationError("Baumgarte", "finite gains 2 ζ ω and ω²", shown(self), "Try 20 and 1.")

    @property
    def gains(self) -> tuple[float, float]:
        """Gains of velocity errors, ``2 ζ ω`` (1/s), and of position errors, ``ω²`` (1/s²)."""
        return 2.0 * self.damping * self.frequency, self.frequency * self.frequency


What = Literal[
    "delassus", "osim", "consistent_inverse", "delassus_product", "delassus_solution", "damped_solution", "mass_matrix",
    "coriolis_matrix", "jacobian", "impulse", "kinematics", "frame_jacobian", "frame_velocity", "frame_acceleration",
    "jacobian_drift", "energies", "kinetic_energy", "potential_energy", "momentum", "momentum_jacobian",
    "momentum_drift", "momentum_rate", "centre_of_mass", "centre_of_mass_jacobian", "centre_of_mass_drift",
    "close_loops", "reduced_dynamics", "dynamics", "dynamics_derivatives", "dynamics_hessian", "inverse_dynamics",
    "bias_force", "inverse_dynamics_derivatives", "inverse_dynamics_hessian", "control", "step", "step_derivatives",
    "step_hessian", "regressor", "inertial_derivatives", "sensors", "contact_step", "contact_step_derivatives",
    "constraint_errors", "integrate", "difference", "forward_dynamics", "forward_kinematics",
]  # fmt: skip
"""Names that `delassus.compile` takes."""

OsimMethod = Literal[OsimAlgorithm, "auto"]
DynamicsMethod = Literal[DynamicsAlgorithm, "auto"]
InverseDynamicsMethod = Literal["orthogonal", "cluster-rnea", "auto"]
Method = Literal[OsimAlgorithm, DynamicsAlgorithm, InverseDynamicsMethod]
"""Names that ``method=`` takes."""


Flags = bool | Sequence[bool]
Constraints = Iterable[Constraint] | Constraint | None
Payloads = Mapping[str, ArrayLike] | None
Stabilisation = Baumgarte | float | Sequence[Baumgarte | float | None] | None
Passive = Literal["model", "none"]
Control = Literal["tau", "actuators", "pd"]
Compliance = float | Sequence[ArrayLike | None] | None
Gains = ArrayLike | Literal["input"] | Sequence[ArrayLike | Literal["input"] | None]
Frames = str | Frame | Sequence[str | Frame] | None
Reference = Literal["local", "world", "local-world-aligned"]
Integrator = Literal["semi-implicit", "rk4"]
Solver = Literal["nsgs", "pgs", "admm"]


class ConstraintArguments(TypedDict, total=False):
    """Arguments of constraints and payloads, as keywords of the direct functions; explained in `delassus.delassus`."""

    rows: Sequence[ArrayLike] | None
    placements: Sequence[ArrayLike] | None
    payloads: Payloads


class Surroundings(TypedDict, total=False):
    """Forces of the surroundings, as keywords of the direct functions; explained in `delassus.forward_dynamics`."""

    wrenches: Mapping[str | Frame, ArrayLike] | None
    gravity: ArrayLike | None
    passive: Passive
    damping: ArrayLike


class ForcedMotion(ConstraintArguments, Surroundings, total=False):
    """`Surroundings`, goals of constraints, and which of them act."""

    targets: Sequence[ArrayLike | None] | None
    baumgarte: Stabilisation
    poses: Sequence[ArrayLike | None] | None
    active: ArrayLike


class ConstrainedMotion(ForcedMotion, total=False):
    """`ForcedMotion`, and the source of joint forces."""

    control: Control
    kp: ArrayLike
    kd: ArrayLike
    v_target: ArrayLike


class Keywords(TypedDict, total=False):
    """Options of `delassus.compile`, which explains them."""

    gravity: ArrayLike | Literal["input"]
    passive: Passive
    damping: ArrayLike | Literal["input"]
    control: Control
    v_target: bool
    wrenches: Iterable[str | Frame]
    targets: Flags
    baumgarte: Stabilisation
    poses: Flags
    compliance: Gains | None
    active: bool
    impacts: bool
    frames: Frames
    sensors: Sensors
    reference: Reference
    independent: Iterable[str] | None
    output: Constraints
    loops: Constraints
    hold: Iterable[str]
    motors: Iterable[str] | Literal["actuated"] | None
    weights: ArrayLike | Literal["input"]
    contacts: Constraints
    kp: Gains
    kd: Gains
    impedance: bool | Sequence[ArrayLike]
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
