"""Rows of spins, the relative angular velocities that patches resist; see `delassus.solvers.islands.patches`."""

from __future__ import annotations

from delassus.compiler.jit.compile import compiled, inlined
from delassus.contact.collision.colliders import ContactArrays
from delassus.contact.sparse.records import SPINS, Contacts, Data, Links
from delassus.solvers.islands.cone import PATCH
from delassus.solvers.islands.records import Bodies, RowGroups
from delassus.spatial.rotations import Array

START, TOTAL, SUSTAINED = range(3)
"""Places in `Contacts.angular`: where solvers start, of all phases, and of the contact phase."""


@inlined
def lever(found: ContactArrays, e: int, c: int) -> float:
    """Length (m) by which a component of angular velocity becomes one of a patch's velocities."""
    over = found.friction[e] if found.friction[e] > 0.0 else 1.0
    return float((found.torsional[e] if c == 2 else found.rolling[e]) / over)


@compiled
def spin_rows(
    links: Links, bodies: Bodies, poses: Array, rows: RowGroups, j: int, found: ContactArrays, e: int
) -> None:
    """Fill the Jacobians of a spin: relative angular velocity along the axes of a contact, times lengths."""
    for side in range(2):
        link = found.links[e, side]
        if link < 0:
            continue
        block, sign = links.block[link], 1.0 - 2.0 * side
        here, f = rows.at_a[j] if block == rows.a[j] else rows.at_b[j], bodies.first[block]
        m = bodies.first[block + 1] - f
        while link >= 0:
            T = links.slot[link]
            for k in range(links.first_dof[link], links.first_dof[link + 1]):
                if links.axes[k] >= 3:
                    a = links.axes[k] - 3
                    for r in range(3):
                        turn = 0.0
                        for c in range(3):
                            turn += found.frames[e, c, r] * poses[T, c, a]
                        rows.J[here + r * m + links.place[k] - f] += sign * lever(found, e, r) * turn
            link = links.parents[link]


@compiled
def start_turning(contacts: Contacts, e: int, nearest: int) -> None:
    """Angular impulse that a contact starts from: that of the ``nearest`` of the step before, or none (−1)."""
    angular, found, before = contacts.angular, contacts.found, contacts.before
    for c in range(3):
        angular[START, e, c] = angular[TOTAL, e, c] = angular[SUSTAINED, e, c] = 0.0
        for a in range(3):
            if nearest >= 0:
                angular[START, e, c] += found.frames[e, a, c] * before.angular[nearest, a]


@compiled
def keep_turning(data: Data, e: int, is_asleep: bool) -> None:
    """Keep the angular impulse of a contact, as `delassus.contact.sparse.rows.store_impulses` does those others."""
    contacts, angular, rows, i = data.contacts, data.contacts.angular, data.rows, data.contacts.row[e]
    for c in range(3):
        if is_asleep:
            angular[SUSTAINED, e, c] = angular[TOTAL, e, c] = angular[START, e, c]
        elif i >= 0 and rows.kind[i] == PATCH:
            angular[SUSTAINED, e, c] = lever(contacts.found, e, c) * rows.r[rows.law.partner[i], c]
            angular[TOTAL, e, c] += angular[SUSTAINED, e, c]
    for a in range(3):
        contacts.before.angular[e, a] = 0.0
        for c in range(3):
            contacts.before.angular[e, a] += contacts.found.frames[e, a, c] * angular[SUSTAINED, e, c]


@compiled
def add_spin_impulses(data: Data, begin: int) -> None:
    """Add impulses of spins, the row groups from ``begin`` on, to those of all phases of an impact."""
    for j in range(begin, data.progress.step[SPINS]):
        e = data.islands.contact[j]
        for c in range(3):
            data.contacts.angular[TOTAL, e, c] += lever(data.contacts.found, e, c) * data.rows.r[j, c]
