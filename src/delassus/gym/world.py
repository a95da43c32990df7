"""`World`: one of `Worlds` as a `gymnasium.Env`, with pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Env
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from delassus.errors import ConfigurationError, shown
from delassus.gym.pictures import Pictures, pictures_of
from delassus.gym.worlds import RENDER_MODES, Floats, Worlds, target_of
from delassus.model.check import check_choice, check_whole, finite_array
from delassus.pictures.video import check_size


class World(Env[Floats, Floats]):
    """One world of an environment, stepped alone: what `gymnasium.make` gives.

    Parameters
    ----------
    made : callable
        Makes the environment, `Worlds`, from a number of worlds, such as `ArmReach`.
    render_mode : {None, "rgb_array"}
        Whether `render` takes pictures.
    size : (int, int)
        Their width and height in pixels.
    options
        Of the environment.

    Raises
    ------
    ConfigurationError
        ``made`` makes no `Worlds`, the render mode is unknown, the size is out of range, or an autoreset mode is given.

    Examples
    --------
    >>> import gymnasium
    >>> import delassus.gym
    >>> env = gymnasium.make("delassus/ArmReach-v0", render_mode="rgb_array", size=(64, 48))
    >>> seen, _ = env.reset(seed=0)
    >>> seen.shape, env.render().shape
    ((26,), (48, 64, 3))
    """

    metadata = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012

    def __init__(
        self,
        made: Callable[..., Worlds],
        *,
        render_mode: str | None = None,
        size: tuple[int, int] = (480, 320),
        **options: Any,
    ) -> None:
        if render_mode is not None:
            check_choice("render_mode", render_mode, RENDER_MODES, ConfigurationError)
        if target_of(options.get("device", "cpu")) != "cpu":
            advice = "Take the environment itself: one robot alone is slow on a GPU."
            raise ConfigurationError("device", "'cpu' of one world", shown(options["device"]), advice)
        if "autoreset_mode" in options:
            advice = "Call reset, take gymnasium.wrappers.Autoreset, or make a vector."
            raise ConfigurationError("autoreset_mode", "none of one world", shown(options["autoreset_mode"]), advice)
        self._size, self.render_mode = check_size(size), render_mode
        worlds = made(1, **options) if callable(made) else made
        if not isinstance(worlds, Worlds):
            advice = "Pass such as delassus.gym.ArmReach."
            raise ConfigurationError("made", "what makes Worlds of a number", f"{shown(worlds)} of 1", advice)
        self.worlds = worlds
        self.worlds.autoreset_mode = AutoresetMode.DISABLED
        self.observation_space = self.worlds.single_observation_space
        self.action_space = self.worlds.single_action_space
        self.metadata = {**type(self).metadata, "render_fps": round(1.0 / self.worlds.control)}
        self._pictures: Pictures | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """As in `Worlds`, without the axis of worlds."""
        if seed is not None:
            seed = check_whole("seed", seed, "The same one gives the same episodes.")
        seen, infos = self.worlds.reset(seed=seed, options=options)
        super().reset(seed=seed)
        return seen[0], infos

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """As in `Worlds`, without the axis of worlds; call `reset` before the first step and after an episode's end."""
        given = finite_array(action, self.action_space.shape or (), "action", "Numbers between −1 and 1.")
        actions = np.clip(given, -1.0, 1.0)[None].astype(np.float32)
        seen, rewards, terminated, truncated, infos = self.worlds.step(actions)
        return seen[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), infos

    def render(self) -> NDArray[np.uint8] | None:
        """Picture (height, width, 3) of the state, the camera going with the robot; None without a render mode."""
        if self.render_mode is None:
            return None
        self._pictures = self._pictures or pictures_of(self.worlds.scene(), self._size)
        return self._pictures(self.worlds.q[0].astype(float))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_pictures": None}
