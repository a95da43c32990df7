"""Constrained rigid-body dynamics from Python.

Load a robot, state constraints, compute the Delassus matrix ``G = J M⁻¹ Jᵀ`` by every algorithm of its literature.
All names are below, by topic; ``help(ds.load)`` and so on say all of each.

>>> import delassus as ds
>>> robot, feet = ds.mechanisms.humanoid(), [ds.Weld("left_foot"), ds.Weld("right_foot")]
>>> ds.delassus(robot, feet, robot.random(0, batch=100)).shape
(100, 12, 12)

Robots
    `load`                    a robot from a URDF, SDF, MJCF or OpenUSD file, by name, or of Pinocchio or MuJoCo
    `load_parallel`           a robot with closed loops from a URDF file and closures in YAML
    `Tree`                    a robot: joints, links, inertias; its configurations
    `mechanisms`              robots from code: chain, stem, ladder, star, humanoid …

Constraints
    `Frame`                   a place on a link
    `Weld`                    six rows: a link holds on to the world or another link
    `Point`                   three rows: a point holds on, and rotation is free
    `Hinge`                   five rows: two links only turn about an axis
    `Prismatic`               five rows: two links only slide along an axis
    `Cylindrical`             four rows: two links slide along an axis and turn about it
    `Universal`               four rows: two points move together, two axes stay across each other
    `Planar`                  three rows: two links slide in a plane and turn about its normal
    `Orientation`             three rows: a link does not turn
    `Distance`                one row: two points stay as far apart as they are
    `SpringDamper`            a force between two points
    `Tendon`                  a length along frames and joints, held or a spring
    `Bushing`                 forces and torques between two frames
    `CenterOfMass`            three rows: the centre of mass does not move
    `JointRows`               rows on joints: couplings, mimics
    `Rows`                    any rows on a link, or between two
    `Baumgarte`               draws constraints back that have drifted

Delassus matrix and operational space
    `delassus`                G = J M⁻¹ Jᵀ
    `delassus_operator`       G factorised: products and solutions without the matrix
    `osim`                    its inverse, the operational-space inertia
    `consistent_inverse`      dynamically consistent inverse of J
    `jacobian`                J of the constraints
    `jacobian_drift`          J̇ v
    `OSIM_METHODS`            names of the methods

Control
    `control`                 joint forces that do tasks, with contacts, too
    `Control`                 what control returns

Closed loops
    `close_loops`             the nearest configuration at which loops are closed
    `random_configurations`   random configurations at which they are
    `ClosedLoops`             what close_loops returns
    `LoopStatus`              whether loops are closed, in words
    `reduced_dynamics`        dynamics of independent coordinates: transmission, mass matrix, bias, Delassus matrix
    `ReducedDynamics`         what it returns
    `Singularity`             kinds of singularities, in words

Dynamics
    `forward_dynamics`        accelerations and constraint forces
    `impulse`                 velocities after an impact, and impulses
    `inverse_dynamics`        joint forces of a motion, of motors under constraints, too
    `InverseDynamics`         what it returns with constraints
    `InverseDynamicsStatus`   whether motors and constraints cause the motion, in words
    `inverse_dynamics_derivatives` its derivatives
    `inverse_dynamics_hessian` its second derivatives
    `bias_force`              joint forces that keep q̈ = 0
    `mass_matrix`             M
    `coriolis_matrix`         C: joint forces C v keep q̈ = 0 without gravity
    `dynamics_derivatives`    derivatives of forward dynamics
    `dynamics_hessian`        second derivatives of forward dynamics
    `step_derivatives`        of a time step: A and B of a controller
    `step_hessian`            second derivatives of a time step
    `DYNAMICS_METHODS`        names of the methods
    `ForwardDynamics`         what forward_dynamics returns
    `ImpulseDynamics`         what impulse returns
    `DynamicsStatus`          how a state was solved, in words
    `DynamicsDerivatives`     what dynamics_derivatives returns
    `DynamicsHessian`         what dynamics_hessian returns

Kinematics
    `forward_kinematics`      poses of links and frames
    `frame_velocity`          twist of a frame
    `frame_acceleration`      its acceleration
    `frame_jacobian`          its Jacobian
    `centre_of_mass`          its position in the world
    `Sensor`                  what is measured of a robot: an accelerometer on a frame, a force through a joint …
    `sensors`                 what sensors measure
    `centre_of_mass_jacobian` its Jacobian
    `centre_of_mass_drift`    its acceleration at q̈ = 0

Energy and momentum
    `kinetic_energy`          ½ vᵀ M v
    `potential_energy`        of gravity and springs
    `momentum`                linear and angular, about the centre of mass
    `momentum_jacobian`       the matrix that takes v to it
    `momentum_rate`           its rate
    `momentum_drift`          its rate at q̈ = 0

Inertial parameters
    `regressor`               what joint forces, energy and momentum are per inertial parameter
    `base_parameters`         the combinations of these that motion shows
    `BaseParameters`          what it returns
    `exciting_motion`         a motion that shows them well
    `ExcitingMotion`          what it returns

Compiled
    `compile`                 machine code of any of these for one robot and its constraints
    `Kernel`                  what compile returns
    `CudaKernel`              what it returns for a GPU
    `rollout`                 many steps of a kernel
    `ilqr`                    controls that make the cost of a trajectory small
    `Plan`                    what ilqr gives
    `identify`                parameters of a kernel from measurements
    `Identification`          what identify returns
    `count_operations`        operations of a method
    `OperationCount`          so many of each kind
    `OperationReport`         what count_operations returns

Contact
    `Contact`                 a shape on a link that may touch the ground, for compile
    `Scene`                   robots and bodies with shapes
    `Simulator`               steps of a scene in time
    `contact`                 shapes, formulations and solvers

Errors
    `DelassusError`           base of all errors
    `SingularError`           constraint rows are redundant at some state
    `DelassusWarning`         of what is not as a file or caller may think
"""

import importlib as _importlib
import sys as _sys
import typing as _typing

from delassus.accuracy.status import DynamicsStatus
from delassus.algorithms.dynamics import DYNAMICS_METHODS
from delassus.api.control import Control, control
from delassus.api.dynamics import dynamics_derivatives, dynamics_hessian, forward_dynamics
from delassus.api.inverse_dynamics import (
    InverseDynamics,
    InverseDynamicsStatus,
    bias_force,
    inverse_dynamics,
    inverse_dynamics_derivatives,
    inverse_dynamics_hessian,
)
from delassus.api.kinematics import (
    forward_kinematics,
    frame_acceleration,
    frame_jacobian,
    frame_velocity,
    jacobian,
    jacobian_drift,
)
from delassus.api.loops import (
    ClosedLoops,
    LoopStatus,
    ReducedDynamics,
    Singularity,
    close_loops,
    random_configurations,
    reduced_dynamics,
)
from delassus.api.momentum import (
    centre_of_mass,
    centre_of_mass_drift,
    centre_of_mass_jacobian,
    kinetic_energy,
    momentum,
    momentum_drift,
    momentum_jacobian,
    momentum_rate,
    potential_energy,
)
from delassus.api.osim import (
    OSIM_METHODS,
    consistent_inverse,
    coriolis_matrix,
    delassus,
    delassus_operator,
    impulse,
    mass_matrix,
    osim,
)
from delassus.api.regressors import BaseParameters, base_parameters, regressor
from delassus.api.sensors import sensors
from delassus.api.steps import step_derivatives, step_hessian
from delassus.constraints import (
    Bushing,
    CenterOfMass,
    Contact,
    Cylindrical,
    Distance,
    Frame,
    Hinge,
    JointRows,
    Orientation,
    Planar,
    Point,
    Prismatic,
    Rows,
    Sensor,
    SpringDamper,
    Tendon,
    Universal,
    Weld,
)
from delassus.errors import DelassusError, DelassusWarning
from delassus.formats.load import load
from delassus.formats.parallel import load_parallel
from delassus.model import mechanisms
from delassus.model.tree import Tree
from delassus.quantities.evaluate import SingularError
from delassus.quantities.keywords import Baumgarte
from delassus.quantities.results import DynamicsDerivatives, DynamicsHessian, ForwardDynamics, ImpulseDynamics
from delassus.runtime.libraries.graphs import announce as _announce
from delassus.version import __deprecated__ as __deprecated__
from delassus.version import __version__ as __version__
from delassus.version import renamed as _renamed

if _typing.TYPE_CHECKING:
    from delassus import contact
    from delassus.api.excitation import ExcitingMotion, exciting_motion
    from delassus.contact.scene import Scene
    from delassus.quantities.trace import OperationReport, count_operations
    from delassus.runtime.compile import compile
    from delassus.runtime.cuda.kernel import CudaKernel
    from delassus.runtime.identify import Identification, identify
    from delassus.runtime.kernel import Kernel
    from delassus.runtime.rollouts.rollout import rollout
    from delassus.simulate.ilqr import ilqr
    from delassus.simulate.simulator import Simulator
    from delassus.spatial.trace.graph import OperationCount


__all__ = [
    "DYNAMICS_METHODS",
    "OSIM_METHODS",
    "BaseParameters",
    "Baumgarte",
    "Bushing",
    "CenterOfMass",
    "ClosedLoops",
    "Contact",
    "Control",
    "CudaKernel",
    "Cylindrical",
    "DelassusError",
    "DelassusWarning",
    "Distance",
    "DynamicsDerivatives",
    "DynamicsHessian",
    "DynamicsStatus",
    "ExcitingMotion",
    "ForwardDynamics",
    "Frame",
    "Hinge",
    "Identification",
    "ImpulseDynamics",
    "InverseDynamics",
    "InverseDynamicsStatus",
    "JointRows",
    "Kernel",
    "LoopStatus",
    "OperationCount",
    "OperationReport",
    "Orientation",
    "Plan",
    "Planar",
    "Point",
    "Prismatic",
    "ReducedDynamics",
    "Rows",
    "Scene",
    "Sensor",
    "Simulator",
    "SingularError",
    "Singularity",
    "SpringDamper",
    "Tendon",
    "Tree",
    "Universal",
    "Weld",
    "base_parameters",
    "bias_force",
    "centre_of_mass",
    "centre_of_mass_drift",
    "centre_of_mass_jacobian",
    "close_loops",
    "compile",
    "consistent_inverse",
    "contact",
    "control",
    "coriolis_matrix",
    "count_operations",
    "delassus",
    "delassus_operator",
    "dynamics_derivatives",
    "dynamics_hessian",
    "exciting_motion",
    "forward_dynamics",
    "forward_kinematics",
    "frame_acceleration",
    "frame_jacobian",
    "frame_velocity",
    "identify",
    "ilqr",
    "impulse",
    "inverse_dynamics",
    "inverse_dynamics_derivatives",
    "inverse_dynamics_hessian",
    "jacobian",
    "jacobian_drift",
    "kinetic_energy",
    "load",
    "load_parallel",
    "mass_matrix",
    "mechanisms",
    "momentum",
    "momentum_drift",
    "momentum_jacobian",
    "momentum_rate",
    "osim",
    "potential_energy",
    "random_configurations",
    "reduced_dynamics",
    "regressor",
    "rollout",
    "sensors",
    "step_derivatives",
    "step_hessian",
]

_NAMES = __all__
del __all__  # `__getattr__` gives it

_LATER = {
    "CudaKernel": "delassus.runtime.cuda.kernel",
    "ExcitingMotion": "delassus.api.excitation",
    "Identification": "delassus.runtime.identify",
    "Kernel": "delassus.runtime.kernel",
    "OperationCount": "delassus.spatial.trace.graph",
    "OperationReport": "delassus.quantities.trace",
    "Plan": "delassus.simulate.trajectory",
    "Scene": "delassus.contact.scene",
    "Simulator": "delassus.simulate.simulator",
    "compile": "delassus.runtime.compile",
    "contact": "delassus.contact",
    "count_operations": "delassus.quantities.trace",
    "exciting_motion": "delassus.api.excitation",
    "identify": "delassus.runtime.identify",
    "ilqr": "delassus.simulate.ilqr",
    "rollout": "delassus.runtime.rollouts.rollout",
}
"""Names whose modules are imported when they are first asked for: the compiler and contact take as long as the rest."""


_announce()


if not _typing.TYPE_CHECKING:  # type checkers report names that are not there

    def __getattr__(name: str) -> _typing.Any:
        if name == "__all__" and _sys._getframe(1).f_code.co_name != "docmodule":
            return _NAMES  # but not to pydoc: all that is in it, it prints in full, and `help` of this has 3,000 lines
        if name not in _LATER:
            return _renamed(name)
        module = _importlib.import_module(_LATER[name])
        value = module if name == "contact" else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return list(_NAMES)
