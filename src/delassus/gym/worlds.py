"""`Worlds`: what the environments share. Copies of one robot, stepped together by one compiled contact kernel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from delassus.constraints import Frame
from delassus.constraints.contact import contacts_of
from delassus.contact.scene import Scene
from delassus.errors import ConfigurationError, shown
from delassus.gym.arrays import Arrays, arrays_of
from delassus.model.check import MOST_STATES, check_number, check_whole, finite_array
from delassus.model.shapes import Collider, HalfSpace
from delassus.runtime.any_kernel import AnyKernel
from delassus.runtime.rollouts.rollout import rollout

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]
Array = NDArray[Any]
MOST_STEPS = 10_000
"""From one action to the next."""

LARGEST = float(np.finfo(np.float32).max)
"""Of numbers that worlds are given."""

Range = tuple[float, float]
"""From and to; random numbers between are drawn at the start of each episode."""


class Worlds(VectorEnv[Floats, Floats, NDArray[Any]]):
    """Copies of a robot in contact as one vector environment, in float32.

    An environment of your own is a class with four methods: `begin` writes ``q`` where an episode starts, `controls`
    makes controls of the kernel from ``actions``, `observe` writes ``observations`` and `judge` ``rewards`` and
    ``fallen``. The rest of its state is arrays of its own, (num_envs, …), as attributes. The page on learning has one
    in full.

    Actions are between −1 and 1. Episodes that end begin anew in the same step: ``infos["final_obs"]`` has the last
    observations of those where ``infos["_final_obs"]``. A state that is not finite ends its episode.

    Parameters
    ----------
    num_envs : int
    kernel : Kernel
        Compiled ``"contact_step"`` in float32, with ``friction="input"`` and one payload.
    observed, actions : int
        Numbers of an observation and of an action.
    control, dt : float
        Time (s) from one action to the next, and of a step of the simulation.
    episode : float
        Longest time of an episode (s).
    friction, payload : (float, float)
        Of all contacts, and mass (kg) at the origin of the payload's link: ranges to draw from for each episode.
    threads : int, optional
        As in a call of the kernel.
    device : str
        ``"cpu"`` is NumPy's arrays. ``"cuda"`` or ``"cuda:1"`` is tensors of PyTorch on a GPU, for kernels with
        ``target="cuda"``: nothing waits for the device, ``infos`` always has ``"final_obs"``, and ``np_random`` only
        starts the random numbers of the device.

    Environments take all but the first four of these by keyword.

    Attributes
    ----------
    q, v, impulses : (num_envs, …) arrays of float32
        States of all worlds; write to them in `begin` only.
    actions : (num_envs, actions) array of float32
        The last ones; zero at the start of an episode.
    observations, rewards, fallen : (num_envs, observed), (num_envs,) and (num_envs,) arrays
        What `observe` and `judge` write, in place.
    steps : (num_envs,) array of int
        Actions since the start of the episode.
    arrays : Arrays
        Makes arrays: ``zeros(shape)``, ``array(numbers)``, and random ones for `begin`, ``uniform(low, high, shape)``.
    xp : module
        Functions of arrays.
    path : dict of arrays of float32
        Of the last step, by names of the kernel's arguments: states from its start to its end, (decimation + 1,
        num_envs, …), and what its steps in time have in common.

    Raises
    ------
    ConfigurationError
        ``num_envs`` is not a whole number of at least 1, a time is not positive, ``control`` is not a whole number of
        ``dt``, or a range is not from a number ≥ 0 to one that is not smaller.

    Examples
    --------
    Episodes of two actions: both are cut off after the second one.

    >>> import numpy as np
    >>> from delassus.gym import ArmReach
    >>> envs = ArmReach(2, episode=0.04)
    >>> _ = envs.reset(seed=0)
    >>> [envs.step(np.zeros((2, 3)))[3].tolist() for _ in range(2)]
    [[False, False], [True, True]]
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int,
        kernel: AnyKernel,
        observed: int,
        actions: int,
        *,
        control: float = 0.02,
        dt: float = 0.004,
        episode: float = 20.0,
        friction: Range = (0.5, 1.0),
        payload: Range = (0.0, 2.0),
        threads: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.num_envs = n = check_whole("num_envs", num_envs, "How many robots there are.", least=1, most=MOST_STATES)
        self.control, self.dt = check_number("control", control, "Seconds."), check_number("dt", dt, "Seconds.")
        steps = min(self.control / self.dt, MOST_STEPS + 1)
        self.decimation = round(steps)
        if not 1 <= self.decimation <= MOST_STEPS or abs(self.decimation * self.dt - self.control) > 1e-9:
            wanted = f"a whole number of time steps, up to {MOST_STEPS:,}"
            raise ConfigurationError("control", wanted, f"{control} s of {dt} s each", "Choose another dt.")
        self.kernel, self.tree, self._threads = kernel, kernel.request.tree, threads
        if threads is not None:
            check_whole("threads", threads, "Or leave it out.", least=1)
        self.longest = max(1, round(min(check_number("episode", episode, "Seconds.") / self.control, 2.0**53)))
        self._ranges = {name: _range(name, x) for name, x in (("friction", friction), ("payload", payload))}
        self.single_observation_space = Box(-np.inf, np.inf, (observed,), np.float32)
        self.single_action_space = Box(-1.0, 1.0, (actions,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, n)
        self.action_space = batch_space(self.single_action_space, n)
        self.arrays: Arrays = arrays_of(device)
        if kernel.target != target_of(device):
            wanted, came = f"one compiled with target={target_of(device)!r}", f"target={kernel.target!r}"
            raise ConfigurationError("kernel", wanted, came, f"The worlds are on device={device!r}.")
        self.xp, zeros = self.arrays.xp, self.arrays.zeros
        shapes = {argument.name: argument.shape for argument in kernel.arguments}
        self.q, self.v, self.impulses, self._friction, self._payload = (
            zeros((n, *shapes[name])) for name in ("q", "v", "impulses", "friction", "payload0")
        )
        self.actions, self.observations, self.rewards = zeros((n, actions)), zeros((n, observed)), zeros((n,))
        self.steps, self.fallen = zeros((n,), "int64"), zeros((n,), "bool")
        self._all, self._neutral = self.arrays.whole(range(n)), self.arrays.array(self.tree.neutral())
        self._dt = self.arrays.array(self.dt)
        self.path: dict[str, Array] = {}

    @abstractmethod
    def begin(self, worlds: Whole) -> None:
        """Put some worlds (k,) where an episode starts."""

    @abstractmethod
    def controls(self) -> tuple[Floats, dict[str, Any]]:
        """Controls (num_envs, …) of the kernel until the next action, and its other arguments."""

    @abstractmethod
    def observe(self, worlds: Whole | slice) -> None:
        """Write ``observations`` of some worlds, an index of arrays; ``slice(None)`` is all of them."""

    @abstractmethod
    def judge(self) -> None:
        """Write ``rewards``, and ``fallen`` where an episode has ended, of all worlds."""

    def scene(self) -> Scene:
        """What pictures show: the robot with its contacts, on the planes that these touch."""
        contacts = contacts_of(self.kernel.request.constraints)
        planes = {c.ground if isinstance(c.ground, Frame) else Frame("world"): None for c in contacts}
        placed = [(c.frame, c.shape) for c in contacts] + [(frame, HalfSpace()) for frame in planes]
        return Scene(self.tree, [Collider(at.link, shape, at.position, at.rotation) for at, shape in placed])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """All worlds at the start; the same ``seed`` gives the same episodes.

        Raises
        ------
        ConfigurationError
            A seed that is not a whole number ≥ 0, or options that are not a mapping.
        """
        if seed is not None:
            check_whole("seed", seed, "The same one gives the same episodes.")
        if options is not None and not isinstance(options, Mapping):
            raise ConfigurationError("options", "a mapping, or None", shown(options), "Pass such as {}.")
        super().reset(seed=seed, options=options)
        self.arrays.seed(self.np_random)
        self._begin(self._all)
        return self.arrays.copy(self.observations), {}

    def _begin(self, worlds: Whole) -> None:
        draw, n = self.arrays.uniform, len(worlds)
        self.steps[worlds] = 0
        for x in (self.v, self.impulses, self.actions):
            x[worlds] = 0.0
        self._friction[worlds] = draw(*self._ranges["friction"], (n, 1))
        self._payload[worlds, 0] = draw(*self._ranges["payload"], (n,))
        self.begin(worlds)
        self.observe(worlds)

    def _restart(self, ended: Array) -> None:
        """Begin anew where episodes have ended, on a GPU by beginning everywhere and keeping the others."""
        if self.arrays.waits:
            self._begin(np.flatnonzero(ended))
            return
        kept = {name: self.arrays.copy(x) for name, x in vars(self).items() if self._is_of_worlds(x)}
        self._begin(self._all)
        for name, x in kept.items():
            setattr(self, name, self._where(ended, getattr(self, name), x))

    def _is_of_worlds(self, x: Any) -> bool:
        return isinstance(x, type(self.q)) and x.shape[:1] == (self.num_envs,)

    def _where(self, worlds: Array, x: Any, otherwise: Array) -> Array:
        """Array (num_envs, …) that is ``x`` in some worlds, a mask."""
        if self.arrays.waits and not worlds.any():
            return otherwise
        found: Array = self.xp.where(worlds.reshape(-1, *[1] * (otherwise.ndim - 1)), x, otherwise)
        return found

    def step(self, actions: Floats) -> tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Observations (num_envs, observed), rewards, whether episodes have ended and whether they were cut off.

        ``actions`` are (num_envs, actions). The last three results are (num_envs,) each; a dictionary follows them.

        Raises
        ------
        ConfigurationError
            Actions of another shape, or not finite.
        """
        copy = self.arrays.copy
        self.actions[...] = self.xp.clip(self.arrays.actions(actions, self.actions.shape), -1.0, 1.0)
        control, others = self.controls()
        held = {"friction": copy(self._friction), "payload0": copy(self._payload), **others}
        qs, vs, impulses, *_ = rollout(
            self.kernel, self.q, self.v, control[None], self.dt, decimation=self.decimation, time_axis=0,
            threads=self._threads, return_status=self.arrays.waits, impulses=self.impulses, **held,
        )  # fmt: skip
        asked = {self.kernel.request.control: copy(control), "dt": self._dt}
        self.path = {"q": qs, "v": vs, "impulses": impulses, **held, **asked}
        self.q, self.v, self.impulses = copy(qs[-1]), copy(vs[-1]), copy(impulses[-1])
        self.steps += 1
        wrong = ~self.xp.isfinite(self.q.sum(1) + self.v.sum(1))
        self.q, self.v, self.impulses = (
            self._where(wrong, rest, x) for rest, x in ((self._neutral, self.q), (0.0, self.v), (0.0, self.impulses))
        )
        self.judge()
        self.rewards = self._where(wrong, 0.0, self.rewards)
        self.observe(slice(None))
        terminated, infos = self.fallen | wrong, {}
        truncated = ~terminated & (self.steps >= self.longest)
        ended = terminated | truncated
        if not self.arrays.waits or ended.any():
            infos = {"final_obs": copy(self.observations), "_final_obs": ended}
            self._restart(ended)
        return copy(self.observations), copy(self.rewards), terminated, truncated, infos


def target_of(device: str) -> Any:
    """Target of kernels for worlds on a device."""
    return "cpu" if device == "cpu" else "cuda"


def up_of(q: Array) -> tuple[Array, Array, Array]:
    """The direction of up in the axes of free links, (n,) each, of configurations (n, nq)."""
    x, y, z, w = q[:, 3], q[:, 4], q[:, 5], q[:, 6]
    return 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)


def _range(name: str, given: Range) -> Range:
    low, high = finite_array(given, (2,), name, "Pass the lowest and the highest.")
    if not 0 <= low <= high <= LARGEST:
        wanted = f"0 ≤ lowest ≤ highest ≤ {LARGEST:.2g}"
        raise ConfigurationError(name, wanted, shown(given), "Pass the lowest and the highest.")
    return float(low), float(high)
