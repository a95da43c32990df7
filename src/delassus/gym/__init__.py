"""Learning environments: thousands of robots in contact as one `gymnasium.vector.VectorEnv` (extra ``[gym]``).

>>> import delassus.gym
>>> envs = delassus.gym.Go1Velocity(64, generic=True)
>>> observations, _ = envs.reset(seed=0)
>>> observations.shape, envs.step(envs.action_space.sample())[1].shape
((64, 50), (64,))

Importing this package also registers ``delassus/Go1Velocity-v0``, ``delassus/HumanoidStand-v0`` and
``delassus/ArmReach-v0`` for `gymnasium.make_vec`, and for `gymnasium.make`, one robot with pictures.
"""

from functools import partial
from typing import Any

from delassus.errors import require

require("gymnasium", "gym", "learning environments")

from gymnasium.envs.registration import register  # noqa: E402

from delassus.gym import adapters  # noqa: E402
from delassus.gym.arm import ArmReach  # noqa: E402
from delassus.gym.go1 import Go1Velocity  # noqa: E402
from delassus.gym.humanoid import HumanoidStand  # noqa: E402
from delassus.gym.world import World  # noqa: E402
from delassus.gym.worlds import MOST_ACTIONS, Worlds  # noqa: E402

__all__ = ["ArmReach", "Go1Velocity", "HumanoidStand", "World", "Worlds", "adapters"]

for _made in (ArmReach, Go1Velocity, HumanoidStand):
    _alone: Any = partial(World, _made, max_episode_steps=MOST_ACTIONS)  # `make` truncates episodes by a wrapper
    _alone.metadata = World.metadata
    globals()[f"_{_made.__name__}Alone"] = _alone
    register(
        id=f"delassus/{_made.__name__}-v0",
        entry_point=f"{__name__}:_{_made.__name__}Alone",
        vector_entry_point=f"{_made.__module__}:{_made.__name__}",
        max_episode_steps=_made.registered_steps(),
    )
