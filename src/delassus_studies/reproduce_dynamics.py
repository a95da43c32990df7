"""``delassus reproduce dynamics``: what [LQR] claims of constrained forward dynamics, measured again.

Robots are timed with compiled code on one core; families of mechanisms are counted by `CountOps`, as for the Delassus
algorithms (see `reproduce_osim`); accuracy is measured with the algorithms on NumPy.
"""

from __future__ import annotations

from delassus_studies.claims import Claim
from delassus_studies.claims_dynamics import ACCURACY_CLAIMS, SCALING_CLAIMS
from delassus_studies.claims_dynamics_times import TIME_CLAIMS

DYNAMICS_CLAIMS: tuple[Claim, ...] = (*TIME_CLAIMS, *ACCURACY_CLAIMS, *SCALING_CLAIMS)
