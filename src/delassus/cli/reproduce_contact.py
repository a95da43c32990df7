"""``delassus reproduce contact``: what [OS] claims of contact dynamics in minimal coordinates, measured again.

Sizes are those of problems that were built; times are of this machine, and judged by their ratios and exponents.
"""

from __future__ import annotations

from delassus.cli.claims import Claim
from delassus.cli.claims_contact import SIZE_CLAIMS
from delassus.cli.claims_contact_times import TIME_CLAIMS

CONTACT_CLAIMS: tuple[Claim, ...] = (*SIZE_CLAIMS, *TIME_CLAIMS)
