"""Scenes of things that fall, swing, stand and are carried; no robots. Each is one short file of public names."""

from delassus.scenes.things.dominoes import dominoes

__all__ = ["dominoes"]
