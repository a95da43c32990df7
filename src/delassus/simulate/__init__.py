"""Scenes in time: `Simulator`, recordings, checkpoints, ready-made scenes, a viewer."""

from delassus.simulate.simulator import FORMULATIONS, Simulator

__all__ = ["FORMULATIONS", "Simulator"]
