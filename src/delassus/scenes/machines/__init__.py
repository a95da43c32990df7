"""Scenes of robots and mechanisms that walk, grip, open, drive and push. Each is one short file of public names."""

from delassus.scenes.machines.car import car
from delassus.scenes.machines.delta import delta
from delassus.scenes.machines.door import door
from delassus.scenes.machines.gripper import gripper
from delassus.scenes.machines.humanoid import humanoid
from delassus.scenes.machines.tiles import tiles

__all__ = ["car", "delta", "door", "gripper", "humanoid", "tiles"]
