"""Scenes in time: `Simulator`, recordings, checkpoints."""

from delassus.simulate.checkpoint import load_checkpoint, save_checkpoint
from delassus.simulate.recording import Recorder, Recording
from delassus.simulate.simulator import Simulator

__all__ = ["Recorder", "Recording", "Simulator", "load_checkpoint", "save_checkpoint"]
