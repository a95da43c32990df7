"""``delassus reproduce dynamics``: what [LQR] claims of constrained forward dynamics, measured again.

Families of mechanisms are counted by `CountOps`, as for the Delassus algorithms (see `reproduce_osim`); accuracy is
measured with the algorithms on NumPy. Methods that the library does not have are left out, and the text says so.
"""

from __future__ import annotations

from delassus.cli.claims import Claim
from delassus.cli.claims_dynamics import ACCURACY_CLAIMS, SCALING_CLAIMS

DYNAMICS_CLAIMS: tuple[Claim, ...] = (*ACCURACY_CLAIMS, *SCALING_CLAIMS)
