"""Forward dynamics by every algorithm of its literature, one file each, and what goes with it.

================  ===================  ==============================  =======================================
method            file                 cost                            source
================  ===================  ==============================  =======================================
``aba``           `aba`                O(n), no constraints            Featherstone 1983
``kkt``           `kkt`                O(n³ + m n² + m³)               the definition
================  ===================  ==============================  =======================================

`state` holds what they start from, `relative` the right-hand sides of constraints, `regularity` what happens where rows
are dependent. `rnea`, `kinematics` and `energy` are inverse dynamics, poses, energies, momentum and centre of mass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from delassus.algorithms.dynamics.aba import aba
from delassus.algorithms.dynamics.kkt import kkt
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem

Method = Callable[[DynamicsProblem], Solution]

METHODS: Mapping[str, Method] = MappingProxyType({"aba": aba, "kkt": kkt})
"""Every method by its name."""

DYNAMICS_METHODS: tuple[str, ...] = tuple(METHODS)
"""Names that ``method=`` accepts."""

UNCONSTRAINED: frozenset[str] = frozenset({"aba"})
"""Methods that take no constraints."""
