"""Colliders, and pairs that do not collide, from files: URDF with SRDF, and MJCF.

`load_colliders` reads the shapes, `load_ignored` the pairs; both give what `Scene` takes.
"""

from delassus.contact.geometry.load import load_colliders, load_ignored

__all__ = ["load_colliders", "load_ignored"]
