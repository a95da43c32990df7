"""Ready-made scenes: each function returns a `ReadyScene` to run, watch and change."""

from delassus.scenes.boxes import boxes
from delassus.scenes.dual_arm import dual_arm
from delassus.scenes.mppi import mppi
from delassus.scenes.pendulum import pendulum
from delassus.scenes.quadruped import generic_quadruped, quadruped
from delassus.scenes.ready import ReadyScene

__all__ = ["ReadyScene", "boxes", "dual_arm", "generic_quadruped", "mppi", "pendulum", "quadruped"]
