"""``delassus reproduce osim``: what the papers claim of the Delassus algorithms, measured again.

Robots are counted on traced graphs after common-subexpression elimination; families of mechanisms, some
of whose graphs are too large to build, by `CountOps` (a test holds PV-OSIM and PV-OSIMr within 3 % of the traced count,
EFPA within 6 % above it). Where a claim depends on how a joint transform is applied, it is measured twice:
*staged* (translation, constant rotation and joint turn one after the other, this library's way) and *composite*
(multiplied out to one 6×6 matrix first, the way of the papers' own code).
"""

from __future__ import annotations

from delassus_studies.claims import Claim
from delassus_studies.claims_families import FAMILY_CLAIMS
from delassus_studies.claims_robots import ROBOT_CLAIMS

OSIM_CLAIMS: tuple[Claim, ...] = (*FAMILY_CLAIMS, *ROBOT_CLAIMS)
