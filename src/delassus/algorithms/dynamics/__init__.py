"""Forward dynamics by every algorithm of its literature, one file each, and what goes with it.

================  ===================  ==============================  =======================================
method            file                 cost                            source
================  ===================  ==============================  =======================================
``aba``           `aba`                O(n), no constraints            Featherstone 1983
``kkt``           `kkt`                O(n³ + m n² + m³)               the definition
``ltl``           `ltl`                O(n d² + m² d + m³)             [LQR] eqs. 2-8, Featherstone 2005
``ltl-soft``      `ltl_soft`           O(n d² + m d²), soft            [LQR] VI and IX-C, MuJoCo
``pv``            `pv`                 O(n + m² d + m³)                [LQR] V, algorithm 1
``pv-early``      `pv_early`           O(n + m), hard and soft         [LQR] VIII
``pv-soft``       `pv_soft`            O(n + m), soft                  [LQR] VI; of loops ``pv-early``
``proximal``      `proximal`           O(n + m) an iteration           Carpentier et al. 2021
``cluster-aba``   `clusters.aba`       O(n), of local loops            Chignoli et al. 2023, Jain 2012
================  ===================  ==============================  =======================================

`state` holds what they start from, `constraint_acceleration` the right-hand sides of constraints,
`delassus.accuracy.status` what happens where rows are dependent. In `popov_vereshchagin`, `link_elimination` is what
`pv` and `pv_early` share, `early_rows` what `pv_early` does at a link; `loop_rows`, `activation` and `constant_rows`
are about what is not in its source. `derivatives` are those of accelerations, forces and time steps, which
`integrate` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, get_args

from delassus.algorithms.clusters.aba import cluster_aba
from delassus.algorithms.dynamics.aba import aba
from delassus.algorithms.dynamics.kkt import kkt
from delassus.algorithms.dynamics.ltl import ltl
from delassus.algorithms.dynamics.ltl_soft import ltl_soft
from delassus.algorithms.dynamics.popov_vereshchagin.pv import pv
from delassus.algorithms.dynamics.popov_vereshchagin.pv_early import pv_early
from delassus.algorithms.dynamics.popov_vereshchagin.pv_soft import pv_soft
from delassus.algorithms.dynamics.proximal import proximal
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem

Method = Callable[[DynamicsProblem], DynamicsSolution]

METHODS: Mapping[str, Method] = MappingProxyType({
    "aba": aba,
    "kkt": kkt,
    "ltl": ltl,
    "ltl-soft": ltl_soft,
    "pv": pv,
    "pv-early": pv_early,
    "pv-soft": pv_soft,
    "proximal": proximal,
    "cluster-aba": cluster_aba,
})  # fmt: skip
"""Every method by its name."""

DynamicsAlgorithm = Literal["aba", "kkt", "ltl", "ltl-soft", "pv", "pv-early", "pv-soft", "proximal", "cluster-aba"]
"""Their names, for type checkers."""

DYNAMICS_METHODS: tuple[DynamicsAlgorithm, ...] = get_args(DynamicsAlgorithm)
"""Names that ``method=`` accepts."""

UNCONSTRAINED: frozenset[str] = frozenset({"aba"})
"""Methods that take no constraints."""

SOFT: frozenset[str] = frozenset({"ltl-soft", "pv-soft"})
"""Methods that take soft constraints only."""

HARD_AND_SOFT: frozenset[str] = frozenset({"kkt", "ltl", "pv-early", "proximal"})
"""Methods that take soft constraints and hard ones."""

BY_LINKS: frozenset[str] = frozenset({"pv-early", "pv-soft"})
"""Methods that eliminate links one by one, in any order of children before parents."""

BY_CLUSTERS: frozenset[str] = frozenset({"cluster-aba"})
"""Methods over clusters of links, in independent coordinates: hard constraints only, which always act."""

ITERATIVE: frozenset[str] = frozenset({"proximal"})
"""Methods that run until each state has converged."""

OF_LEAST_NORM: frozenset[str] = ITERATIVE | BY_CLUSTERS
"""Methods whose forces are those of least norm where rows depend on one another."""
