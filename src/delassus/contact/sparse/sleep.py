"""Islands of free bodies at rest that are left as they are until something touches them, in compiled code.

An island of free bodies all of which have been slower than `SLOW` for a time falls asleep: its bodies stand still, and
the contacts between them keep their impulses and are not solved for. It wakes as a whole where a contact that is closed
or may close ties one of its bodies to one that is awake.
"""

from __future__ import annotations

from delassus.compiler.jit.compile import compiled
from delassus.contact.sparse.records import BlockStates, Data, SceneModel, Sleep
from delassus.contact.sparse.rows import activation_gap, may_close
from delassus.solvers.islands.records import Bodies, StepOptions

SLOW = 1000.0
"""Speed, over the tolerance, of the origin and of the farthest points of bodies below which they are at rest."""


@compiled
def stop_sleeping(bodies: Bodies, state: BlockStates, sleep: Sleep) -> None:
    """No velocity at the end of the step for bodies that sleep."""
    for b in range(sleep.island.size):
        if sleep.island[b] > 0:
            for c in range(bodies.first[b], bodies.first[b + 1]):
                state.target[c] = 0.0


@compiled
def wake(bodies: Bodies, state: BlockStates, sleep: Sleep, island: int, dt: float) -> None:
    """Wake an island."""
    for b in range(sleep.island.size):
        if sleep.island[b] == island:
            sleep.island[b], sleep.time[b] = 0, 0.0
            for c in range(bodies.first[b], bodies.first[b + 1]):
                state.target[c] = state.v[c] + dt * state.qdd[c]


@compiled
def wake_touched(model: SceneModel, data: Data, options: StepOptions, n: int) -> None:
    """Wake islands that contacts tie to bodies that are awake; those wake others."""
    contacts, sleep, margin, again = data.contacts, data.sleep, activation_gap(model, options), True
    while again:
        again = False
        for e in range(n):
            a, b = contacts.found.links[e, 0], contacts.found.links[e, 1]
            if a < 0 or b < 0:
                continue
            one, other = sleep.island[model.links.block[a]], sleep.island[model.links.block[b]]
            if (one == 0) == (other == 0):
                continue
            if may_close(model, data, options, margin, e):
                wake(data.bodies, data.state, sleep, max(one, other), options.dt)
                again = True


@compiled
def fall_asleep(model: SceneModel, data: Data, options: StepOptions) -> None:
    """Count how long islands have been at rest, and let those sleep that have been long enough."""
    bodies, state, islands, sleep, done = data.bodies, data.state, data.islands, data.sleep, data.work.V
    n_free, size, still = model.free[1], model.size, SLOW * options.tolerance
    for b in range(sleep.island.size):
        done[b] = 0.0
    for k in range(islands.island[bodies.at.size]):
        slow, least = True, options.sleep
        for i in range(islands.node_ends[k], islands.node_ends[k + 1]):
            b, linear, angular = islands.nodes[i], 0.0, 0.0
            slow = slow and b < n_free
            if slow:
                for c in range(bodies.first[b], bodies.first[b] + 3):
                    linear += state.next.v[c] ** 2
                    angular += state.next.v[c + 3] ** 2
                slow = linear < still * still and size * size * angular < still * still
        for i in range(islands.node_ends[k], islands.node_ends[k + 1]):
            b = islands.nodes[i]
            done[b] = sleep.time[b] + options.dt if slow else 0.0
            least = min(least, done[b])
        if slow and least >= options.sleep:
            for i in range(islands.node_ends[k], islands.node_ends[k + 1]):
                b = islands.nodes[i]
                sleep.island[b] = 1 + islands.nodes[islands.node_ends[k]]
                for c in range(bodies.first[b], bodies.first[b + 1]):
                    state.next.v[c] = 0.0
    for b in range(sleep.island.size):
        sleep.time[b] = done[b]
