"""Scenes in time: `Simulator`, recordings, checkpoints."""

import typing as _typing

from delassus.simulate.checkpoint import load_checkpoint, save_checkpoint
from delassus.simulate.derivatives import BlockMatrix, StepDerivatives, TrajectoryGradient
from delassus.simulate.recording import Recorder, Recording
from delassus.simulate.simulator import Simulator
from delassus.version import renamed as _renamed

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

if not _typing.TYPE_CHECKING:  # type checkers report names that are not there

    def __getattr__(name: str) -> object:
        return _renamed(f"simulate.{name}")
