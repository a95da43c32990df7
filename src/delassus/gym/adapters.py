"""Adapters to the vector environments of Stable-Baselines3 and rsl_rl.

skrl, torchrl and training loops like CleanRL's need no adapter: they take the vector environments of Gymnasium.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from delassus.errors import ConfigurationError, missing_dependency, shown
from delassus.gym.worlds import Worlds

__all__ = ["rsl_rl", "stable_baselines3"]


def stable_baselines3(envs: Worlds) -> Any:
    """Adapt worlds to `stable_baselines3.common.vec_env.VecEnv` (extra ``[sb3]``).

    Parameters
    ----------
    envs : Worlds
        Worlds on the CPU with autoreset in the same step. Gymnasium's vector wrappers around them are allowed.

    Returns
    -------
    VecEnv
        Vector environment of Stable-Baselines3. ``seed`` and ``set_options`` apply to the next ``reset``. All worlds
        share the attributes and methods of ``envs``.

    Raises
    ------
    ConfigurationError
        ``envs`` are on a GPU or have another autoreset mode, or options differ between worlds.
    MissingDependencyError
        Stable-Baselines3 is not installed.

    Examples
    --------
    >>> from delassus.gym import ArmReach
    >>> envs = ArmReach(64)
    >>> from stable_baselines3 import PPO  # doctest: +SKIP
    >>> PPO("MlpPolicy", stable_baselines3(envs), n_steps=32).learn(100_000)  # doctest: +SKIP
    """
    try:
        from stable_baselines3.common.vec_env import VecEnv
    except ImportError as cause:
        raise missing_dependency("stable-baselines3", "sb3", "vectors of Stable-Baselines3") from cause
    _check(envs)
    if not envs.unwrapped.arrays.waits:
        raise ConfigurationError("envs", "worlds on the processor", "worlds on a GPU", "Make them with device='cpu'.")

    return _adapter(VecEnv)(envs)


def _adapter(base: Any) -> Any:
    """Class of vector environments of Stable-Baselines3, whose class ``base`` is, around worlds."""

    class StableBaselinesWorlds(base):  # type: ignore[misc]
        """Vector environment of Stable-Baselines3 around ``envs``."""

        def __init__(self, envs: Worlds) -> None:
            self.envs = envs
            super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

        def reset(self) -> Any:
            options = self._options[0]
            if any(each is not options and each != options for each in self._options):
                wanted = "the same ones for all worlds"
                raise ConfigurationError("options", wanted, shown(self._options), "Pass one dictionary.")
            observations, _ = self.envs.reset(seed=self._seeds, options=options)
            self._reset_seeds()
            self._reset_options()
            return observations

        def step_async(self, actions: Any) -> None:
            self._actions = actions

        def step_wait(self) -> Any:
            observations, rewards, terminated, truncated, infos = self.envs.step(self._actions)
            told: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
            ended = terminated | truncated
            for k in np.flatnonzero(ended):
                cut = bool(truncated[k] and not terminated[k])
                told[k] = {"terminal_observation": infos["final_obs"][k], "TimeLimit.truncated": cut}
            return observations, rewards, ended, told

        def close(self) -> None:
            self.envs.close()

        def get_images(self) -> Any:
            return self.envs.render()

        def get_attr(self, name: str, indices: Any = None) -> list[Any]:
            return [getattr(self.envs.unwrapped, name)] * len(self._get_indices(indices))

        def set_attr(self, name: str, value: Any, indices: Any = None) -> None:
            self._check_all("set_attr", indices)
            setattr(self.envs.unwrapped, name, value)

        def env_method(self, name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            self._check_all("env_method", indices)
            return list(self.envs.unwrapped.call(name, *args, **kwargs))

        def env_is_wrapped(self, wrapper: Any, indices: Any = None) -> list[bool]:
            return [False] * len(self._get_indices(indices))

        def _check_all(self, name: str, indices: Any) -> None:
            if len(set(self._get_indices(indices))) != self.num_envs:
                advice = "Worlds share attributes and methods: leave indices out."
                raise ConfigurationError(name, "all worlds", shown(indices), advice)

    return StableBaselinesWorlds


def rsl_rl(envs: Worlds) -> Any:
    """Adapt worlds to `rsl_rl.env.VecEnv` (extra ``[rsl-rl]``), with one observation group, ``"policy"``.

    Parameters
    ----------
    envs : Worlds
        Worlds on the CPU or a GPU with autoreset in the same step, without wrappers. This function resets them. Call
        ``envs.reset(seed=0)`` before it to make a run reproducible.

    Returns
    -------
    VecEnv
        Vector environment of rsl_rl on the device of ``envs``. ``extras["time_outs"]`` marks truncated episodes.
        ``episode_length_buf`` reads and writes ``envs.steps``.

    Raises
    ------
    ConfigurationError
        ``envs`` are wrapped or have another autoreset mode.
    MissingDependencyError
        rsl_rl is not installed.

    Examples
    --------
    >>> from delassus.gym import ArmReach
    >>> envs = ArmReach(64)
    >>> from rsl_rl.runners import OnPolicyRunner  # doctest: +SKIP
    >>> OnPolicyRunner(rsl_rl(envs), settings).learn(300, init_at_random_ep_len=True)  # doctest: +SKIP
    """
    try:
        import torch
        from rsl_rl.env import VecEnv
        from tensordict import TensorDict
    except ImportError as cause:
        raise missing_dependency("rsl-rl-lib", "rsl-rl", "vectors of rsl_rl") from cause
    _check(envs, wrapped=False)

    class RslRlWorlds(VecEnv):  # type: ignore[misc]
        """Vector environment of rsl_rl around ``envs``."""

        def __init__(self) -> None:
            self.num_envs, self.num_actions = envs.actions.shape
            self.max_episode_length, self.cfg = envs.longest, dict[str, Any]()
            self.device = torch.as_tensor(envs.steps).device
            envs.reset()

        @property
        def episode_length_buf(self) -> Any:
            return torch.as_tensor(envs.steps)

        @episode_length_buf.setter
        def episode_length_buf(self, steps: Any) -> None:
            torch.as_tensor(envs.steps)[:] = steps

        def get_observations(self) -> Any:
            return self._grouped(envs.arrays.copy(envs.observations))

        def step(self, actions: Any) -> Any:
            with torch.inference_mode(False), torch.no_grad():  # the tensors of envs must stay writable
                found = envs.step(actions.cpu().numpy() if envs.arrays.waits else actions)
            observations, rewards, terminated, truncated = map(torch.as_tensor, found[:4])
            return self._grouped(observations), rewards, terminated | truncated, {"time_outs": truncated}

        def _grouped(self, observations: Any) -> Any:
            return TensorDict({"policy": torch.as_tensor(observations)}, batch_size=[self.num_envs])

    return RslRlWorlds()


def _check(envs: Any, wrapped: bool = True) -> None:
    known = isinstance(envs.unwrapped if wrapped and isinstance(envs, VectorEnv) else envs, Worlds)
    if not known or envs.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP:
        wanted = "an environment of delassus.gym with autoreset_mode='SameStep'"
        came = str(envs.metadata["autoreset_mode"]) if known else shown(envs)
        raise ConfigurationError("envs", wanted, came, "Such as delassus.gym.ArmReach(64).")
