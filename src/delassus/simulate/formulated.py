"""One time step by any formulation of [OS], through the problem that it builds; `step` is the fast one."""

from __future__ import annotations
