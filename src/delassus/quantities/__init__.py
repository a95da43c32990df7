"""What can be computed: one declaration each, from which the direct functions and `delassus.compile` run.

`quantity` says what a declaration holds. `osim`, `dynamics`, `contact` and `kinematics` hold the declarations, each
with its direct functions. A `request` resolves and checks what is asked for, with its `options`; a `case` binds it to a
backend, and `evaluate` to NumPy. `redundancy` is the one answer to dependent rows, `pivots` how kernels find them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from delassus.errors import unknown_name
from delassus.quantities import contact, dynamics, kinematics, osim
from delassus.quantities.quantity import Quantity

QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        quantity.name: quantity
        for quantity in (
            osim.DELASSUS,
            osim.OSIM,
            osim.DELASSUS_PRODUCT,
            osim.DAMPED_SOLUTION,
            osim.MASS_MATRIX,
            osim.JACOBIAN,
            kinematics.JACOBIAN_DRIFT,
            kinematics.KINEMATICS,
            kinematics.FRAME_JACOBIAN,
            kinematics.FRAME_VELOCITY,
            kinematics.FRAME_ACCELERATION,
            dynamics.INVERSE_DYNAMICS,
            dynamics.BIAS_FORCE,
            dynamics.CONTROL_FORCES,
            dynamics.DYNAMICS,
            dynamics.DYNAMICS_DERIVATIVES,
            dynamics.STEP,
            dynamics.STEP_DERIVATIVES,
            contact.CONTACT_STEP,
            kinematics.ENERGIES,
            kinematics.MOMENTUM,
            kinematics.MOMENTUM_JACOBIAN,
            kinematics.MOMENTUM_DRIFT,
            kinematics.CENTRE_OF_MASS,
            kinematics.CENTRE_OF_MASS_JACOBIAN,
            kinematics.CENTRE_OF_MASS_DRIFT,
            contact.OPERATIONAL_SPACE_COMPLIANCE,
            contact.JOINT_SPACE_MOTION,
            contact.CONSTRAINT_ERRORS,
            contact.LINK_WRENCHES,
            contact.POSITION_UPDATE,
        )
    }
)
"""Every quantity by its name."""


def find_quantity(what: str) -> Quantity:
    """Quantity of that name, or `UnknownNameError` with the nearest match."""
    if not isinstance(what, str) or what not in QUANTITIES:
        raise unknown_name("what to compile", what, QUANTITIES)
    return QUANTITIES[what]
