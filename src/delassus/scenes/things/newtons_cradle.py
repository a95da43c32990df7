"""Newton's cradle: five balls that hang in a row."""

import numpy as np

import delassus as ds
from delassus.contact import Capsule, Collider, Sphere
from delassus.scenes.ready import ReadyScene

BALL = Sphere(0.05)
"""A ball, of 1 kg (m)."""

GAP = 1e-5
"""Space between balls that hang (m): impacts then go from ball to ball, as in a real cradle."""

HEIGHT = 0.5
"""Height of the two bars above the balls (m)."""

WIDE = 0.2
"""Their distance from the plane in which balls swing (m)."""

ANGLE = 0.6
"""Of the first ball from where it hangs (rad)."""


def newtons_cradle(n: int = 5) -> ReadyScene:
    """Cradle of ``n`` balls, of which the first is lifted: it strikes, stops, and the last one rises as high.

    A ball with its two rods is one body, which a loop constraint holds on a hinge.

    Examples
    --------
    >>> ready = newtons_cradle()
    >>> len(ready.scene.loops), ready.scene.tree.nv
    (5, 30)
    """
    at = {f"ball{k + 1}": k * (2 * BALL.radius + GAP) for k in range(n)}
    steel = 0.75, 0.77, 0.8, 1
    colliders = [Collider(f"{name}/body", BALL, friction=0.0, restitution=1.0, name=name, rgba=steel) for name in at]
    rod, bar = Capsule(0.003, np.hypot(HEIGHT, WIDE) - 0.03), Capsule(0.006, 0.2 * n)
    for y in (-WIDE, WIDE):
        along = np.array([0.0, y, HEIGHT]) / np.hypot(HEIGHT, WIDE)
        tilted, lying = np.array([[1, 0, 0], np.cross(along, [1, 0, 0]), along]).T, [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
        colliders += [Collider(f"{name}/body", rod, (0, y / 2, HEIGHT / 2), tilted, name=f"{name} {y}") for name in at]
        colliders.append(Collider("world", bar, (at[f"ball{n}"] / 2, y, HEIGHT), lying, name=f"bar {y}"))
    ends = [(ds.Frame(f"{name}/body", (0, 0, HEIGHT)), ds.Frame("world", (x, 0, HEIGHT))) for name, x in at.items()]
    hinges = [ds.Hinge(upper, fixed, axis=(0, 1, 0)) for upper, fixed in ends]
    scene = ds.Scene({name: ds.mechanisms.free_body(1.0, BALL.inertia(1.0)) for name in at}, colliders, loops=hinges)
    start, lift, turn = {name: [x, 0, 0, 0, 0, 0, 1] for name, x in at.items()}, HEIGHT * (1 - np.cos(ANGLE)), ANGLE / 2
    start["ball1"] = [-HEIGHT * np.sin(ANGLE), 0, lift, 0, np.sin(turn), 0, np.cos(turn)]
    q0 = scene.configuration(**start)
    energy = float(ds.potential_energy(scene.tree, q0))

    def check(sim: ds.Simulator) -> tuple[bool, str]:
        z, lost = sim.q[2::7], 1 - sum(sim.energy()) / energy
        told = f"the last ball is {1e3 * z[-1]:.2f} mm up, the first was {1e3 * lift:.2f}; {lost:.0e} of energy lost"
        return bool(abs(z[-1] - lift) < 0.01 * lift and z[1:-1].max(initial=0.0) < 1e-4 and abs(lost) < 1e-3), told

    told = f"the first of {n} balls strikes the others, and the last one swings out as far"
    return ReadyScene("newtons-cradle", scene, q0, np.zeros(scene.tree.nv), 1e-3, None, 5.084, told, check)
