"""Solvers of contact steps by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from delassus.algorithms.contact.admm import admm
from delassus.algorithms.contact.laws import Solver
from delassus.algorithms.contact.sweeps import sweeps

SOLVERS: Mapping[str, Solver] = MappingProxyType({"nsgs": sweeps, "pgs": sweeps, "admm": admm})
"""Sweeps over cones, sweeps over pyramids, alternating directions over cones."""
