"""Scenes of things that fall, swing, stand and are carried; no robots. Each is one short file of public names."""

from delassus.scenes.things.bin_of_parts import bin_of_parts
from delassus.scenes.things.card_house import card_house
from delassus.scenes.things.conveyor import conveyor
from delassus.scenes.things.dominoes import dominoes
from delassus.scenes.things.newtons_cradle import newtons_cradle
from delassus.scenes.things.rope_bridge import rope_bridge

__all__ = ["bin_of_parts", "card_house", "conveyor", "dominoes", "newtons_cradle", "rope_bridge"]
