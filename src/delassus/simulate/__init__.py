"""Scenes in time: `Simulator`, recordings, checkpoints, ready-made scenes, a viewer in the browser."""

from delassus.simulate.checkpoint import load_checkpoint, save_checkpoint
from delassus.simulate.recording import Recorder, Recording
from delassus.simulate.simulator import Simulator
from delassus.simulate.viewer import view

__all__ = ["Recorder", "Recording", "Simulator", "load_checkpoint", "save_checkpoint", "view"]
