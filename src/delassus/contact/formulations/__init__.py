"""The formulations of [OS], one file each, as readable as its section of the paper.

==========  ===================  ===========  =======================  ===================
name        unknowns             assembly     size                     file
==========  ===================  ===========  =======================  ===================
``nmc``     ``V⁺, p_b, β̲, σ``   O(n)         6n + n_b + n_u(n_f + 2)  `nmc`
``mc``      ``θ̇⁺, p_b, β̲, σ``  O(N²)        N + n_b + n_u(n_f + 2)   `mc`
``rmc``     ``β̲, σ``            O(N³)        n_u(n_f + 2)             `rmc`
``os``      ``p_b, β̲, σ``       O(N + n_c²)  n_b + n_u(n_f + 2)       `operational_space`
``nmc-os``  ``p_b, β̲, σ``       O(n_c²)      n_b + n_u(n_f + 2)       `nmc_os`
==========  ===================  ===========  =======================  ===================

In ``nmc`` and ``nmc-os``, hinges are among the n_b bilateral rows. All give the same velocities.
"""

from collections.abc import Mapping
from types import MappingProxyType

from delassus.contact.formulations.formulation import Formulation
from delassus.contact.formulations.mc import MinimalCoordinates
from delassus.contact.formulations.nmc import NonMinimalCoordinates
from delassus.contact.formulations.nmc_os import NonMinimalOperationalSpace
from delassus.contact.formulations.operational_space import OperationalSpace
from delassus.contact.formulations.rmc import ReducedMinimalCoordinates

FORMULATIONS: Mapping[str, type[Formulation]] = MappingProxyType(
    {
        "os": OperationalSpace,
        "nmc-os": NonMinimalOperationalSpace,
        "rmc": ReducedMinimalCoordinates,
        "mc": MinimalCoordinates,
        "nmc": NonMinimalCoordinates,
    }
)

__all__ = ["FORMULATIONS", "Formulation"]
