"""Ready-made scenes: each function returns a `ReadyScene` to run, watch and change; `SCENES` has them by name."""

from collections.abc import Callable
from types import MappingProxyType

from delassus.scenes.boxes import boxes
from delassus.scenes.dual_arm import dual_arm
from delassus.scenes.machines import car, delta, door, gripper, humanoid, tiles
from delassus.scenes.mppi import mppi
from delassus.scenes.pendulum import pendulum
from delassus.scenes.quadruped import generic_quadruped, quadruped
from delassus.scenes.ready import ReadyScene, urdf_of
from delassus.scenes.things import bin_of_parts, card_house, conveyor, dominoes, newtons_cradle, rope_bridge

SCENES: MappingProxyType[str, Callable[..., ReadyScene]] = MappingProxyType(
    {
        "pendulum": pendulum,
        "dual-arm": dual_arm,
        "boxes": boxes,
        "quadruped": quadruped,
        "mppi": mppi,
        "tiles": tiles,
        "gripper": gripper,
        "door": door,
        "car": car,
        "delta": delta,
        "humanoid": humanoid,
        "newtons-cradle": newtons_cradle,
        "dominoes": dominoes,
        "card-house": card_house,
        "rope-bridge": rope_bridge,
        "bin": bin_of_parts,
        "conveyor": conveyor,
    }
)
"""Functions of the scenes that ``delassus simulate`` and the gallery know, by name."""

__all__ = [
    "SCENES",
    "ReadyScene",
    "bin_of_parts",
    "boxes",
    "car",
    "card_house",
    "conveyor",
    "delta",
    "dominoes",
    "door",
    "dual_arm",
    "generic_quadruped",
    "gripper",
    "humanoid",
    "mppi",
    "newtons_cradle",
    "pendulum",
    "quadruped",
    "rope_bridge",
    "tiles",
    "urdf_of",
]
