"""The Delassus matrix by every algorithm of its literature, one file each.

================  ===================  ==============================  =======================================
method            file                 cost                            source
================  ===================  ==============================  =======================================
``dense``         `dense`              O(n³ + m² n)                    the definition
``ltl-osim``      `ltl`                O(n d² + m d² + m² d)           Featherstone 2010
``kjr``           `kjr`                O(n + m² d)                     Kreutz-Delgado, Jain, Rodriguez 1992
``efpa``          `efpa`               O(n + m d + m²)                 Wensing, Featherstone, Orin 2012
``pv-osim``       `pv`                 O(n + m² d)                     Sathya et al. 2024 (LQR)
``pv-osimr``      `pvr`                O(n + m²)                       Sathya, Decré, Swevers 2024
================  ===================  ==============================  =======================================

`pv_fast` factorises ``G`` without forming it (PV-OSIM-fast); `cut` is for `delassus.planner`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from delassus.algorithms.osim.dense import dense
from delassus.algorithms.osim.efpa import efpa
from delassus.algorithms.osim.kjr import kjr
from delassus.algorithms.osim.ltl import ltl_osim
from delassus.algorithms.osim.pv import pv_osim
from delassus.algorithms.osim.pvr import pv_osimr
from delassus.algorithms.problem import Problem
from delassus.spatial.ops import Matrix

Method = Callable[[Problem], Matrix]

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "dense": dense,
        "ltl-osim": ltl_osim,
        "kjr": kjr,
        "efpa": efpa,
        "pv-osim": pv_osim,
        "pv-osimr": pv_osimr,
    }
)
"""Every method by its name."""
