"""Constrained rigid-body dynamics from Python.

Load a robot, state constraints, compute the Delassus matrix ``G = J M⁻¹ Jᵀ`` by every algorithm of its literature.

>>> import delassus as ds
>>> robot = ds.mechanisms.humanoid()
>>> feet = [ds.Weld("left_foot"), ds.Weld("right_foot")]
>>> G = ds.delassus(robot, feet, robot.random(0, batch=100))
>>> G.shape
(100, 12, 12)

============  ==========================================================================================================
robots        `load`, `Tree`, `mechanisms`
constraints   `Frame`, `Weld`, `Point`, `Hinge`, `Orientation`, `Distance`, `CenterOfMass`, `JointRows`, `Rows`,
              `Baumgarte`
task space    `delassus`, `delassus_operator`, `osim`, `consistent_inverse`, `jacobian`, `jacobian_drift`,
              `OSIM_METHODS`
dynamics      `forward_dynamics`, `inverse_dynamics`, `bias_force`, `mass_matrix`, `dynamics_derivatives`,
              `step_derivatives`, `DYNAMICS_METHODS`, `ForwardDynamics`, `DynamicsStatus`, `DynamicsDerivatives`
kinematics    `forward_kinematics`, `frame_velocity`, `frame_acceleration`, `frame_jacobian`, `centre_of_mass`,
              `centre_of_mass_jacobian`, `centre_of_mass_drift`
energy        `kinetic_energy`, `potential_energy`, `momentum`, `momentum_jacobian`, `momentum_drift`
compiled      `compile`, `Kernel`, `rollout`, `count_operations`, `OperationCount`, `OperationReport`
contact       `Simulator`, `Scene`, `Contact`, `contact`
errors        `DelassusError`, `SingularError`, `DelassusWarning`
============  ==========================================================================================================

``help(ds.load)`` and so on say more of each; ``help(ds)`` goes on with all of them.
"""

import importlib as _importlib
import typing as _typing

from delassus.algorithms.dynamics import DYNAMICS_METHODS
from delassus.constraints import (
    CenterOfMass,
    Contact,
    Distance,
    Frame,
    Hinge,
    JointRows,
    Orientation,
    Point,
    Rows,
    Weld,
)
from delassus.errors import DelassusError, DelassusWarning
from delassus.interop.load import load
from delassus.model import mechanisms
from delassus.model.tree import Tree
from delassus.quantities import evaluate as _evaluate
from delassus.quantities.dynamics import (
    bias_force,
    dynamics_derivatives,
    forward_dynamics,
    inverse_dynamics,
    step_derivatives,
)
from delassus.quantities.evaluate import SingularError
from delassus.quantities.kinematics import (
    centre_of_mass,
    centre_of_mass_drift,
    centre_of_mass_jacobian,
    forward_kinematics,
    frame_acceleration,
    frame_jacobian,
    frame_velocity,
    jacobian_drift,
    kinetic_energy,
    momentum,
    momentum_drift,
    momentum_jacobian,
    potential_energy,
)
from delassus.quantities.options import Baumgarte
from delassus.quantities.osim import (
    OSIM_METHODS,
    consistent_inverse,
    delassus,
    delassus_operator,
    jacobian,
    mass_matrix,
    osim,
)
from delassus.quantities.redundancy import DynamicsStatus
from delassus.quantities.results import DynamicsDerivatives, ForwardDynamics

if _typing.TYPE_CHECKING:
    from delassus import contact
    from delassus.compiler.trace import OperationReport, count_operations
    from delassus.contact.scene import Scene
    from delassus.runtime.compile import compile
    from delassus.runtime.kernel import Kernel
    from delassus.runtime.rollout import rollout
    from delassus.simulate.simulator import Simulator
    from delassus.spatial.graph import OperationCount

__version__ = "0.1.0"

__all__ = [
    "DYNAMICS_METHODS",
    "OSIM_METHODS",
    "Baumgarte",
    "CenterOfMass",
    "Contact",
    "DelassusError",
    "DelassusWarning",
    "Distance",
    "DynamicsDerivatives",
    "DynamicsStatus",
    "ForwardDynamics",
    "Frame",
    "Hinge",
    "JointRows",
    "Kernel",
    "OperationCount",
    "OperationReport",
    "Orientation",
    "Point",
    "Rows",
    "Scene",
    "Simulator",
    "SingularError",
    "Tree",
    "Weld",
    "bias_force",
    "centre_of_mass",
    "centre_of_mass_drift",
    "centre_of_mass_jacobian",
    "compile",
    "consistent_inverse",
    "contact",
    "count_operations",
    "delassus",
    "delassus_operator",
    "dynamics_derivatives",
    "forward_dynamics",
    "forward_kinematics",
    "frame_acceleration",
    "frame_jacobian",
    "frame_velocity",
    "inverse_dynamics",
    "jacobian",
    "jacobian_drift",
    "kinetic_energy",
    "load",
    "mass_matrix",
    "mechanisms",
    "momentum",
    "momentum_drift",
    "momentum_jacobian",
    "osim",
    "potential_energy",
    "rollout",
    "step_derivatives",
]

_LATER = {
    "Kernel": "delassus.runtime.kernel",
    "OperationCount": "delassus.spatial.graph",
    "OperationReport": "delassus.compiler.trace",
    "Scene": "delassus.contact.scene",
    "Simulator": "delassus.simulate.simulator",
    "compile": "delassus.runtime.compile",
    "contact": "delassus.contact",
    "count_operations": "delassus.compiler.trace",
    "rollout": "delassus.runtime.rollout",
}
"""Names whose modules are imported when they are first asked for: the compiler and contact take as long as the rest."""


def _kernel_of(asked: _typing.Any, dtype: str) -> _typing.Any:
    return _importlib.import_module("delassus.runtime.compile").kernel_of(asked, dtype)


_evaluate.KERNELS[:] = [_kernel_of]


def __getattr__(name: str) -> _typing.Any:
    if name not in _LATER:
        raise AttributeError(f"module 'delassus' has no attribute {name!r}")
    module = _importlib.import_module(_LATER[name])
    value = module if name == "contact" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
