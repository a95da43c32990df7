"""Scenes in time: `Simulator`, recordings, checkpoints."""

from delassus.contact.changes.matrix import BlockMatrix
from delassus.simulate.checkpoint import load_checkpoint, save_checkpoint
from delassus.simulate.derivatives import StepDerivatives, TrajectoryGradient
from delassus.simulate.recording import Recorder, Recording
from delassus.simulate.simulator import Simulator

__all__ = [
    "BlockMatrix",
    "Recorder",
    "Recording",
    "Simulator",
    "StepDerivatives",
    "TrajectoryGradient",
    "load_checkpoint",
    "save_checkpoint",
]
