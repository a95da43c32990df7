"""Ready-made scenes: each function returns a `ReadyScene` to run, watch and change."""

from delassus.simulate.scenes.boxes import boxes
from delassus.simulate.scenes.dual_arm import dual_arm, dual_arm_robot
from delassus.simulate.scenes.mppi import mppi
from delassus.simulate.scenes.pendulum import pendulum
from delassus.simulate.scenes.quadruped import generic_quadruped, quadruped
from delassus.simulate.scenes.ready import ReadyScene

__all__ = ["ReadyScene", "boxes", "dual_arm", "dual_arm_robot", "generic_quadruped", "mppi", "pendulum", "quadruped"]
