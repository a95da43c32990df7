"""The Delassus matrix by every algorithm of its literature, one file each.

`pv_fast` factorises ``G`` without forming it (PV-OSIM-fast), `product` applies it; `least_squares` solves with it where
rows are dependent, and `operational_space_control` where directions are weak; `cut` is for the planner of
`delassus.quantities`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from delassus.algorithms.clusters.dense import dense_over_loops
from delassus.algorithms.clusters.efpa import cluster_efpa
from delassus.algorithms.clusters.pvr import cluster_pv_osimr
from delassus.algorithms.osim.dense import dense
from delassus.algorithms.osim.efpa import efpa
from delassus.algorithms.osim.kjr import kjr
from delassus.algorithms.osim.ltl import ltl_osim
from delassus.algorithms.osim.pv import pv_osim
from delassus.algorithms.osim.pvr import pv_osimr
from delassus.algorithms.problem import Problem
from delassus.spatial.ops import Matrix

Method = Callable[[Problem], Matrix]


class Algorithm(NamedTuple):
    """An algorithm: its function, what it costs (n links, m rows, depth d), and its source."""

    run: Method
    cost: str
    source: str


ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        "dense": Algorithm(dense, "n³ + m²n", "the definition"),
        "ltl-osim": Algorithm(ltl_osim, "nd² + md² + m²d", "Featherstone 2010"),
        "kjr": Algorithm(kjr, "n + m²d", "Kreutz-Delgado, Jain, Rodriguez 1992"),
        "efpa": Algorithm(efpa, "n + md + m²", "Wensing, Featherstone, Orin 2012"),
        "pv-osim": Algorithm(pv_osim, "n + m²d", "Sathya, Bruyninckx, Decré, Pipeleers 2024 [LQR]"),
        "pv-osimr": Algorithm(pv_osimr, "n + m²", "Sathya, Decré, Swevers 2024"),
        "cluster-efpa": Algorithm(cluster_efpa, "n + md + m²", "Chignoli, Adrian, Kim, Wensing 2023"),
        "cluster-pv-osimr": Algorithm(cluster_pv_osimr, "n + m²", "PV-OSIMr over clusters of Chignoli and others"),
    }
)
"""Every algorithm by its name."""

METHODS: Mapping[str, Method] = MappingProxyType({name: algorithm.run for name, algorithm in ALGORITHMS.items()})
"""Their functions by name."""

OsimAlgorithm = Literal["dense", "ltl-osim", "kjr", "efpa", "pv-osim", "pv-osimr", "cluster-efpa", "cluster-pv-osimr"]
"""Their names, for type checkers."""

OVER_LOOPS = "cluster-pv-osimr"
"""The method that takes loops where none is named; without loops it is ``"pv-osimr"``."""

OF_LOOPS: Mapping[str, Method] = MappingProxyType(
    {name: METHODS[name] for name in (OVER_LOOPS, "cluster-efpa")} | {"dense": dense_over_loops}
)
"""Methods for robots that loops close, by name."""
