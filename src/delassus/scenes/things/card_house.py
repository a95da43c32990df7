"""A house of cards."""

import numpy as np

import delassus as ds
from delassus.contact import Box, Collider, HalfSpace
from delassus.scenes.ready import ReadyScene

CARD = Box(0.001, 0.063, 0.088)
"""Edges of a card (m); stiff ones, three times as thick as playing cards."""

MASS = 0.0018
"""Mass of a card (kg)."""

LEAN = np.deg2rad(20.0)
"""Angle of cards that lean against each other, from the vertical (rad)."""


def card_house(n: int = 5) -> ReadyScene:
    """House of ``n`` storeys, which stands by friction alone: ``n`` pairs of leaning cards, flat cards, and so on.

    Examples
    --------
    >>> ready = card_house()
    >>> len(ready.scene.robots)
    40
    """
    pitch, tall = CARD.z + 2e-4, CARD.z * np.cos(LEAN) + CARD.x * np.sin(LEAN)
    half, places = 0.5 * (CARD.z * np.sin(LEAN) + CARD.x * np.cos(LEAN)), []
    for storey in range(n):
        z = storey * (tall + CARD.x)
        middles = pitch * (np.arange(n - storey) + 0.5 * storey)
        for x in middles:
            places += [(x - half, z + tall / 2, LEAN), (x + half, z + tall / 2, -LEAN)]
        places += [(x + pitch / 2, z + tall + CARD.x / 2, np.pi / 2) for x in middles[:-1]]
    names = [f"card{k + 1}" for k in range(len(places))]
    colours = (0.85, 0.2, 0.2, 1), (0.95, 0.95, 0.92, 1)
    colliders = [Collider(f"{x}/body", CARD, friction=0.6, name=x, rgba=colours[k % 2]) for k, x in enumerate(names)]
    colliders.append(Collider("world", HalfSpace(), friction=0.6, name="floor"))
    scene = ds.Scene({name: ds.mechanisms.free_body(MASS, CARD.inertia(MASS)) for name in names}, colliders)
    start = {name: [x, 0, z, 0, np.sin(a / 2), 0, np.cos(a / 2)] for name, (x, z, a) in zip(names, places, strict=True)}
    q0 = scene.configuration(**start)

    def check(sim: ds.Simulator) -> tuple[bool, str]:
        moved = np.abs((sim.q - q0).reshape(-1, 7)[:, :3]).max()
        return bool(moved < 1e-3), f"after {sim.time:g} s no card has moved by more than {1e3 * moved:.1g} mm"

    told = f"a card house of {n} storeys, {len(names)} cards, stands by friction"
    return ReadyScene("card-house", scene, q0, np.zeros(scene.tree.nv), 1e-3, None, 3.0, told, check)
