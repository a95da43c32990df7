"""Parts of a step that are computed by ranges: by this thread, or by several that share them.

Ranges are of near pairs, contacts, islands or bodies that do not depend on each other, and each is computed as it would
be alone: results are the same whatever the number of threads. They are shared as states of kernels are
(`delassus.runtime.helper`). Each thread has a place in a *team*, with memory of its own for what it computes.
"""

from __future__ import annotations

from delassus.compiler.jit.compile import compiled, inlined
from delassus.compiler.jit.memory import call_at, compare_exchange, load, store
from delassus.constraints.paths import SLOP
from delassus.contact.collision.narrow_phase import find_touching, unpack
from delassus.contact.collision.near_pairs import place_colliders
from delassus.contact.collision.paths import StepPaths, find_walls, follow_paths
from delassus.contact.sparse.impact import solve_some
from delassus.contact.sparse.motion import correct_positions, free_motion_of_links, integrate_positions
from delassus.contact.sparse.records import Data, SceneModel
from delassus.contact.sparse.rows import choose_contacts, fill_groups, store_impulses, warm_start_contacts
from delassus.contact.sparse.turning import mark_turning, turn_contacts
from delassus.runtime.helper import UNIT, share_work
from delassus.solvers.islands.records import StepOptions

(
    STEPS, FREE_MOTION, PLACING, TOUCHING, FOLLOWING, UNPACKING, TURNING, CHOICE, FILLING, SOLUTION, STORING,
    CORRECTION, INTEGRATION,
) = range(13)  # fmt: skip
"""Whole steps, and parts of one: links without contacts, poses of colliders, contacts of near pairs, of some of them on
their paths, all in their order, how they turn, those that have row groups, these groups, impulses of islands, those of
contacts, position correction of islands, and positions of free bodies."""

GRAIN = UNIT
"""Pairs, contacts or bodies that one thread takes at least; bodies are states of a kernel."""

HELPER, THREADS, LEAST, ADDRESS, SPAN, PART, PLACES = range(7)
"""Places in `Data.team`: address of the helpers; number of threads; of near pairs from which they share a step; address
of the team; of `run_part`; the part that is shared; where places of threads begin."""

BUSY, CODE, ARGUMENTS, RESULTS, PLACE = 0, 8, 16, 24, 32
"""Offsets in the place of a thread: whether one is there; where the address of the machine code of steps is; addresses
of what it is called with, and of its results; size of a place."""


@inlined
def paths_of(model: SceneModel, data: Data, options: StepOptions) -> StepPaths:
    """Paths of links in this step."""
    links, dt, slop = data.links, options.dt, SLOP * options.penetration
    return StepPaths(
        dt, dt * options.tolerance, slop, options.touching, links.reach, links.poses, links.twists, links.overlaps,
        links.hits, model.colliders, data.space,
    )  # fmt: skip


@inlined
def compute_part(part: int, begin: int, end: int, model: SceneModel, data: Data, options: StepOptions) -> None:
    """Compute a range of a part."""
    if part == FREE_MOTION:
        free_motion_of_links(begin, end, model, data, options)
    elif part == PLACING:
        place_colliders(begin, end, data.links.poses, data.links.reach, options.touching, model.colliders, data.space)
    elif part == TOUCHING:
        find_touching(begin, end, data.links.reach, options.touching, model.colliders, data.space)
        find_walls(begin, end, paths_of(model, data, options))
    elif part == FOLLOWING:
        follow_paths(begin, end, paths_of(model, data, options))
    elif part == UNPACKING:
        unpack(begin, end, model.colliders, data.space, data.contacts.found)
        warm_start_contacts(data.space.ends[begin], data.space.ends[end], data.contacts)
        mark_turning(begin, end, model, data, paths_of(model, data, options))
    elif part == TURNING:
        turn_contacts(begin, end, data, paths_of(model, data, options))
    elif part == CHOICE:
        choose_contacts(begin, end, model, data, options)
    elif part == FILLING:
        fill_groups(begin, end, model, data, options)
    elif part == SOLUTION:
        solve_some(begin, end, data, options)
    elif part == STORING:
        store_impulses(begin, end, model.links, data)
    elif part == CORRECTION:
        for k in range(begin, end):
            correct_positions(k, model, data, options)
    else:
        integrate_positions(begin, end, data.state, model.free, data.sleep.island)


@inlined
def share(part: int, n: int, model: SceneModel, data: Data, options: StepOptions) -> None:
    """Compute all of a part."""
    team, grain = data.team, 1 if part == SOLUTION or part == CORRECTION else GRAIN
    if team[THREADS] == 1 or n < 2 * grain or data.space.counts[0] < team[LEAST]:
        if n > 0:
            compute_part(part, 0, n, model, data, options)
    else:
        team[PART] = part
        share_work(team[HELPER], team[SPAN], team[ADDRESS], n, grain, team[THREADS])


@compiled
def run_part(team: int, begin: int, n: int) -> None:
    """Compute a range of the part that a team shares, at a place that is free: there are as many as threads."""
    first = team + 8 * PLACES
    end, place = first + PLACE * load(team + 8 * THREADS), first
    while not compare_exchange(place + BUSY, 0, 1):
        place = place + PLACE if place + PLACE < end else first
    arguments = load(place + ARGUMENTS)
    store(arguments, load(team + 8 * PART))
    store(arguments + 8, begin)
    store(arguments + 16, begin + n)
    call_at(load(load(place + CODE)), arguments, load(place + RESULTS))
    store(place + BUSY, 0)
