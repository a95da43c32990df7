"""What can be computed: one declaration each, from which direct functions (`api`) and `delassus.compile` run.

`quantity` says what a declaration holds; `declarations` holds them. `options` are one table; `keywords` has their
types. A `request` resolves and checks what is asked for, `estimate` its errors; a `bound_request` is bound to a
backend. `delassus.accuracy` answers to dependent rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from delassus.errors import unknown_name
from delassus.quantities.declarations import (
    contact,
    control,
    dynamics,
    inverse_dynamics,
    kinematics,
    loops,
    momentum,
    osim,
    regressors,
    sensors,
    steps,
)
from delassus.quantities.quantity import Quantity

QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        declared.name: declared
        for module in (
            osim,
            kinematics,
            momentum,
            loops,
            dynamics,
            inverse_dynamics,
            control,
            steps,
            regressors,
            sensors,
            contact,
        )
        for declared in vars(module).values()
        if isinstance(declared, Quantity)
    }
)
"""Every quantity by its name: all that are declared in these modules."""


FUNCTIONS: Mapping[str, str] = MappingProxyType({"forward_dynamics": "dynamics", "forward_kinematics": "kinematics"})
"""Names of direct functions whose quantity has another name, and that."""


def find_quantity(what: str) -> Quantity:
    """Quantity of that name or of the direct function of that name; `UnknownNameError` offers the nearest of both."""
    name = FUNCTIONS.get(what, what) if isinstance(what, str) else ""
    if name not in QUANTITIES:
        raise unknown_name("what to compile", what, public_names())
    return QUANTITIES[name]


def public_names() -> list[str]:
    """Names that `delassus.compile` takes: of quantities, and of direct functions whose quantity has another name."""
    return [*(name for name, quantity in QUANTITIES.items() if not quantity.is_private), *FUNCTIONS]
