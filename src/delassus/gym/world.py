"""`World`: one of `Worlds` as a `gymnasium.Env`, with pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Env
from numpy.typing import NDArray

from delassus.errors import ConfigurationError, shown
from delassus.gym.worlds import Floats, Worlds
from delassus.model.check import check_choice, check_list, check_whole, finite_array
from delassus.model.kinematics import world_poses
from delassus.pictures.rendering import OPENING, Renderer
from delassus.pictures.surfaces import extent
from delassus.pictures.video import AWAY, MARGIN
from delassus.spatial.rotations import Array


class World(Env[Floats, Floats]):
    """One world of an environment, stepped alone: what `gymnasium.make` gives.

    Parameters
    ----------
    made : callable
        Makes the environment from a number of worlds, such as `ArmReach`.
    render_mode : {None, "rgb_array"}
        Whether `render` takes pictures.
    size : (int, int)
        Their width and height in pixels.
    options
        Of the environment.

    Raises
    ------
    ConfigurationError
        Another render mode, a size out of range, an action that is not finite; and as the environment does.

    Examples
    --------
    >>> import gymnasium
    >>> import delassus.gym
    >>> env = gymnasium.make("delassus/ArmReach-v0", render_mode="rgb_array", size=(64, 48))
    >>> seen, _ = env.reset(seed=0)
    >>> seen.shape, env.render().shape
    ((26,), (48, 64, 3))
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(
        self,
        made: Callable[..., Worlds],
        *,
        render_mode: str | None = None,
        size: tuple[int, int] = (480, 320),
        **options: Any,
    ) -> None:
        if render_mode is not None:
            check_choice("render_mode", render_mode, ("rgb_array",), ConfigurationError)
        if len(check_list("size", size, "a width and a height", "Such as (480, 320).")) != 2:
            raise ConfigurationError("size", "a width and a height", shown(size), "Such as (480, 320).")
        if options.get("device", "cpu") != "cpu":
            advice = "Take the environment itself: one robot alone is slow on a GPU."
            raise ConfigurationError("device", "'cpu' of one world", shown(options["device"]), advice)
        self._size = tuple(check_whole("size", n, "In pixels.", least=16, most=4096) for n in size)
        self.worlds, self.render_mode = made(1, **options), render_mode
        self.observation_space = self.worlds.single_observation_space
        self.action_space = self.worlds.single_action_space
        self.metadata = {**type(self).metadata, "render_fps": round(1.0 / self.worlds.control)}
        self._q = self.worlds.q[0].astype(float)
        self._renderer: Renderer | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """As in `Worlds`, without the axis of worlds."""
        seen, infos = self.worlds.reset(seed=seed, options=options)
        self._q = self.worlds.q[0].astype(float)
        return seen[0], infos

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """As in `Worlds`, without the axis of worlds; after the end of an episode comes `reset`."""
        given = finite_array(action, self.action_space.shape or (), "action", "Numbers between −1 and 1.")
        seen, rewards, terminated, truncated, infos = self.worlds.step(
            np.clip(given, -1.0, 1.0)[None].astype(np.float32)
        )
        self._q = self.worlds.path["q"][-1, 0].astype(float)  # where the episode ended, if it has
        return infos.get("final_obs", seen)[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self) -> NDArray[np.uint8] | None:
        """Picture (height, width, 3) of the state, the camera going with the robot; None without a render mode."""
        if self.render_mode is None:
            return None
        if self._renderer is None:
            scene = self.worlds.scene()
            self._renderer = Renderer(scene, self._q, *self._size)
            self._away = np.array(AWAY) / np.linalg.norm(AWAY) * extent(scene, self._q)[1] * MARGIN / OPENING
        middle: Array = np.mean([p for _, p in world_poses(self._renderer.scene.tree, self._q)], axis=0)
        return self._renderer.picture(self._q, middle, self._away)
