"""`Worlds`: what the environments share. Copies of one robot, stepped together by one compiled contact kernel."""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from delassus import CudaKernel, Frame, Kernel, Scene, rollout
from delassus.constraints.contact import contacts_of
from delassus.contact import Collider, HalfSpace
from delassus.errors import ConfigurationError, shown, unknown_name
from delassus.gym.arrays import (
    MOST_NUMBERS,
    ArrayLibrary,
    Range,
    arrays_of,
    check_device,
    check_drawn,
    check_kernel,
    check_range,
    key_of,
    mask_of,
    scrambled,
    seeds_of,
    uniform,
)
from delassus.gym.pictures import Pictures, pictures_of
from delassus.model.check import MOST_STATES, check_choice, check_number, check_whole
from delassus.pictures.video import check_size

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]
Array = NDArray[Any]
MOST_STEPS = 10_000
"""From one action to the next."""

CONTROL = 0.02
"""Default time from one action to the next (s)."""

MOST_ACTIONS = 2**53
"""Largest number of actions of an episode: no episode ever gets as long."""

RENDER_MODES = ("rgb_array",)


class Worlds(VectorEnv[Floats, Floats, NDArray[Any]]):
    """Copies of a robot in contact as one vector environment, in float32.

    An environment of your own is a class with four methods: `begin` writes ``q`` where an episode starts, `controls`
    makes controls of the kernel from ``actions``, `observe` writes ``observations`` and `judge` ``rewards`` and
    ``fallen``. The rest of its state is arrays of its own, (num_envs, …), as attributes. Random numbers come from
    `uniform`, and `configure` takes options of a reset. The page on learning has a complete example.

    Actions are between −1 and 1. A state that is not finite ends its episode.

    Parameters
    ----------
    num_envs : int
    kernel : Kernel
        Compiled ``"contact_step"`` in float32, with ``friction="input"`` and one payload.
    observed, actions : int
        Numbers of an observation and of an action.
    control, dt : float
        Time (s) from one action to the next, and of a step of the simulation.
    episode : float, optional
        Longest time of an episode (s). Default: ``max_episode_steps``, or else ``usual_episode`` of the class.
    max_episode_steps : int, optional
        Largest number of actions of an episode. If ``episode`` is given as well, the shorter one counts; but the number
        with which an environment is registered, which `gymnasium.make_vec` passes by default, does not shorten it.
    autoreset_mode : gymnasium.vector.AutoresetMode or str
        When the next episode begins after one has ended, as in `gymnasium.vector.SyncVectorEnv`. ``"SameStep"``: in
        the same step; ``infos["final_obs"]`` has the last observations of the worlds in ``infos["_final_obs"]``.
        ``"NextStep"``: in the next step, which ignores the actions of these worlds and gives reward 0.
        ``"Disabled"``: only `reset` begins an episode.
    render_mode : {None, "rgb_array"}
        Whether `render` returns pictures.
    size : (int, int)
        Width and height of pictures, in pixels.
    friction, payload : (float, float)
        Of all contacts, and mass (kg) at the origin of the payload's link: ranges to draw from for each episode.
    threads : int, optional
        As in a call of the kernel.
    device : str
        ``"cpu"`` uses NumPy arrays. ``"cuda"`` or ``"cuda:1"`` uses PyTorch tensors on a GPU, for kernels with
        ``target="cuda"``. There steps do not wait for the device: ``infos`` of ``"SameStep"`` always contain
        ``"final_obs"``, and ``"Disabled"`` does not refuse a step after the end of an episode.

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
        Makes arrays: ``zeros(shape)``, ``array(numbers)``.
    xp : module
        Functions of arrays.
    path : dict of arrays of float32
        Of the last step, by names of the kernel's arguments: states from its start to its end, (decimation + 1,
        num_envs, …), and what its steps in time have in common.

    Raises
    ------
    ConfigurationError
        ``num_envs``, ``observed`` or ``actions`` is not a whole number of at least 1, the kernel is another one, a time
        is not positive, ``control`` is not a whole number of ``dt``, a range is not from a number ≥ 0 to one that is
        not smaller, or a mode is none of those above.

    Examples
    --------
    Episodes of two actions: both are truncated after the second action, then one world is reset.

    >>> import numpy as np
    >>> from delassus.gym import ArmReach
    >>> envs = ArmReach(2, max_episode_steps=2, autoreset_mode="Disabled")
    >>> _ = envs.reset(seed=0)
    >>> [envs.step(np.zeros((2, 3)))[3].tolist() for _ in range(2)]
    [[False, False], [True, True]]
    >>> _ = envs.reset(options={"reset_mask": np.array([True, False])})
    >>> envs.steps.tolist()
    [0, 2]
    """

    metadata = {"render_modes": list(RENDER_MODES), "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012
    usual_episode = 20.0
    _spec: EnvSpec | None = None

    def __init__(
        self,
        num_envs: int,
        kernel: Kernel | CudaKernel,
        observed: int,
        actions: int,
        *,
        control: float = CONTROL,
        dt: float = 0.004,
        episode: float | None = None,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
        size: tuple[int, int] = (480, 320),
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
        self.kernel, self.tree, self._threads = check_kernel(kernel), kernel.request.tree, threads
        for name, number in (("observed", observed), ("actions", actions)):
            check_whole(name, number, "How many numbers.", least=1, most=MOST_NUMBERS)
        if threads is not None:
            check_whole("threads", threads, "Or leave it out.", least=1)
        self.longest = self._longest(episode, max_episode_steps)
        if render_mode is not None:
            check_choice("render_mode", render_mode, RENDER_MODES, ConfigurationError)
        self.render_mode, self._size = render_mode, check_size(size)
        self._pictures: Pictures | None = None
        self.metadata = {**type(self).metadata, "render_fps": round(1.0 / self.control)}
        self._ranges = {name: check_range(name, x) for name, x in (("friction", friction), ("payload", payload))}
        self.single_observation_space = Box(-np.inf, np.inf, (observed,), np.float32)
        self.single_action_space = Box(-1.0, 1.0, (actions,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, n)
        self.action_space = batch_space(self.single_action_space, n)
        self.arrays: ArrayLibrary = arrays_of(device)
        if kernel.target != target_of(device):
            wanted, came = f"one compiled with target={target_of(device)!r}", f"target={kernel.target!r}"
            raise ConfigurationError("kernel", wanted, came, f"The worlds are on device={device!r}.")
        zeros = self.arrays.zeros
        shapes = {argument.name: argument.shape for argument in kernel.arguments}
        self.q, self.v, self.impulses, self._friction, self._payload = (
            zeros((n, *shapes[name])) for name in ("q", "v", "impulses", "friction", "payload0")
        )
        self.actions, self.observations, self.rewards = zeros((n, actions)), zeros((n, observed)), zeros((n,))
        self.steps, self.fallen, self._ended = zeros((n,), "int64"), zeros((n,), "bool"), zeros((n,), "bool")
        self._keys = scrambled(self.arrays.whole(np.random.default_rng().integers(2**63, size=n)))
        self._drawn, self._begun = zeros((n,), "int64"), False
        self._all, self._neutral = self.arrays.whole(range(n)), self.arrays.array(self.tree.neutral())
        self._dt = self.arrays.array(self.dt)
        self.path: dict[str, Array] = {}
        self.autoreset_mode = autoreset_mode

    @property
    def xp(self) -> Any:
        """Functions of arrays."""
        return self.arrays.xp

    @property
    def autoreset_mode(self) -> AutoresetMode:
        """When the next episode begins after one has ended."""
        mode: AutoresetMode = self.metadata["autoreset_mode"]
        return mode

    @autoreset_mode.setter
    def autoreset_mode(self, mode: AutoresetMode | str) -> None:
        known = [each.value for each in AutoresetMode]
        if not isinstance(mode, AutoresetMode):
            check_choice("autoreset_mode", mode, tuple(known), ConfigurationError)
        self.metadata = {**self.metadata, "autoreset_mode": AutoresetMode(mode)}

    @property
    def spec(self) -> EnvSpec | None:
        """Specification from `gymnasium.make_vec`, in types that JSON has, with the actual ``max_episode_steps``."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None:
            plain = {name: x.value if isinstance(x, Enum) else x for name, x in spec.kwargs.items()}
            spec = replace(spec, kwargs=plain, max_episode_steps=self.longest)
        self._spec = spec

    @classmethod
    def registered_steps(cls) -> int:
        """Number of actions of the longest episode, by default."""
        return round(cls.usual_episode / CONTROL)

    def _longest(self, episode: float | None, steps: int | None) -> int:
        """Number of actions of the longest episode."""
        if steps is not None:
            check_whole("max_episode_steps", steps, "Number of actions; or leave it out.", least=1, most=MOST_ACTIONS)
        if episode is None and steps is not None:
            return steps
        seconds = check_number("episode", self.usual_episode if episode is None else episode, "Seconds.")
        longest = max(1, round(min(seconds / self.control, MOST_ACTIONS)))
        return longest if steps in (None, self.registered_steps()) else min(longest, int(steps or longest))

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

    def configure(self, worlds: Whole) -> None:
        """Take the options of a `reset`, before the worlds (k,) that are reset begin.

        An environment with options overrides this method and takes each option as a keyword with a default. `reset`
        refuses all other names.
        """

    def uniform(self, worlds: Whole, low: Any, high: Any, shape: tuple[int, ...] = ()) -> Floats:
        """Random numbers ``(k, *shape)``, uniform between ``low`` and ``high``, for some worlds (k,).

        Each world has its own stream of random numbers, which other worlds do not change. The same seed gives the same
        numbers on all devices. ``low`` and ``high`` are finite and broadcast with the result.

        Raises
        ------
        ConfigurationError
            ``worlds`` is no index of some worlds, or a bound or the shape is none.
        """
        try:
            some = self._all[worlds]
        except Exception:  # an index may be anything, and whatever it raises means that it is none
            some = self._all[0]
        if some.ndim != 1:
            wanted = f"numbers of worlds, (k,), below {self.num_envs}"
            raise ConfigurationError("worlds", wanted, shown(worlds), "Pass those of `begin`, or slice(None) for all.")
        low, high, shape = check_drawn(self.arrays, low, high, shape, some)
        found: Floats = uniform(self.arrays, self._keys[some], self._drawn[some], low, high, shape)
        self._drawn[some] += math.prod(shape)
        return found

    def scene(self) -> Scene:
        """What pictures show: the robot with its contacts, on the planes that these touch."""
        contacts = contacts_of(self.kernel.request.constraints)
        planes = {c.ground if isinstance(c.ground, Frame) else Frame("world"): None for c in contacts}
        placed = [(c.frame, c.shape) for c in contacts] + [(frame, HalfSpace()) for frame in planes]
        return Scene(self.tree, [Collider(at.link, shape, at.position, at.rotation) for at, shape in placed])

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Begin an episode in all worlds, or in some. The same ``seed`` gives the same episodes.

        Parameters
        ----------
        seed : int or list of int, optional
            An integer ``s`` seeds world i with ``s + i``, as in `gymnasium.vector.SyncVectorEnv`. A list has one seed,
            or None, for each world. A world without a seed continues its stream of random numbers.
        options : dict, optional
            ``"reset_mask"``, an array (num_envs,) of bool, selects the worlds to reset; the others keep their states.
            `configure` takes all other options.

        Returns
        -------
        (num_envs, observed) array of float32
            Observations. Worlds that are not reset keep the last ones.
        dict
            Empty.

        Raises
        ------
        ConfigurationError
            A seed is not a whole number ≥ 0, options are not a mapping, or the mask has another shape or type, selects
            no world, or not all worlds in the first reset.
        UnknownNameError
            An option has an unknown name.
        """
        seeds = seeds_of(seed, self.num_envs)
        if options is not None and not isinstance(options, Mapping):
            raise ConfigurationError("options", "a mapping, or None", shown(options), "Pass such as {}.")
        given = dict(options or {})
        takes = inspect.signature(self.configure).parameters.values()
        known = ["reset_mask", *(p.name for p in list(takes)[1:])]
        for name in given:
            if name not in known and not any(p.kind is p.VAR_KEYWORD for p in takes):
                raise unknown_name("options", name, known)
        mask = mask_of(self.arrays, given.pop("reset_mask", None), self.num_envs)
        if not self._begun and not mask.all():
            raise ConfigurationError("reset_mask", "all worlds, the first time", "some of them", "Call reset().")
        worlds = self._all if mask.all() else self.arrays.whole(np.flatnonzero(mask))
        self.configure(worlds, **given)
        if mask.all() and seeds[0] is not None:
            super().reset(seed=seeds[0])
        keys = {int(k): key_of(seed) for k in np.flatnonzero(mask) if (seed := seeds[k]) is not None}
        if keys:
            at = self.arrays.whole(list(keys))
            self._keys[at], self._drawn[at] = scrambled(self.arrays.whole(list(keys.values()))), 0
        self._begin(worlds)
        self._begun = True
        return self.arrays.copy(self.observations), {}

    def _begin(self, worlds: Whole) -> None:
        self.steps[worlds] = 0
        for x in (self.v, self.impulses, self.actions):
            x[worlds] = 0.0
        for ends in (self.fallen, self._ended):
            ends[worlds] = False
        self._friction[worlds] = self.uniform(worlds, *self._ranges["friction"], (1,))
        self._payload[worlds, 0] = self.uniform(worlds, *self._ranges["payload"])
        self.begin(worlds)
        self.observe(worlds)

    def _restart(self, ended: Array) -> None:
        """Begin anew where episodes have ended, on a GPU by beginning everywhere and keeping the others."""
        if self.arrays.waits:
            if ended.any():
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
            Actions have another shape or are not finite, the worlds were never reset, or, with ``"Disabled"``, an
            episode has ended and its world was not reset.
        """
        copy, mode, drawn = self.arrays.copy, self.autoreset_mode, self._drawn
        before = copy(self._ended)
        self._check_begun("step")
        if mode is AutoresetMode.DISABLED and self.arrays.waits and before.any():
            came, alone = f"worlds {shown(np.flatnonzero(before).tolist())}", "options={'reset_mask': …}"
            wanted = "a reset of worlds whose episodes have ended"
            raise ConfigurationError("step", wanted, came, f"Call reset(), or reset({alone}) for these alone.")
        self.actions[...] = self.xp.clip(self.arrays.actions(actions, self.actions.shape), -1.0, 1.0)
        self._drawn = copy(drawn)
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
        if mode is AutoresetMode.NEXT_STEP:  # the step of worlds that begin anew did not happen
            self._drawn = self._where(before, drawn, self._drawn)
            self.rewards = self._where(before, 0.0, self.rewards)
            terminated, truncated = terminated & ~before, truncated & ~before
            self._restart(before)
        rewards, ended = copy(self.rewards), terminated | truncated
        if mode is AutoresetMode.SAME_STEP and (not self.arrays.waits or ended.any()):
            infos = {"final_obs": copy(self.observations), "final_info": {}}
            infos |= {f"_{name}": copy(ended) for name in infos}
            self._restart(ended)
        elif mode is not AutoresetMode.SAME_STEP:
            self._ended = ended
        return copy(self.observations), rewards, terminated, truncated, infos

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Pictures (height, width, 3) of all worlds, by cameras that follow the robots; None without a render mode."""
        if self.render_mode is None:
            return None
        self._check_begun("render")
        self._pictures = self._pictures or pictures_of(self.scene(), self._size)
        return tuple(map(self._pictures, self.arrays.host(self.q).astype(float)))

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Value of an attribute, or result of a method, for each world, as in `gymnasium.vector.SyncVectorEnv`.

        Raises
        ------
        UnknownNameError
            There is neither of that name.
        """
        if not isinstance(name, str) or not hasattr(self, name):
            raise unknown_name("name", name, [known for known in dir(self) if not known.startswith("_")])
        found = getattr(self, name)
        found = found(*args, **kwargs) if callable(found) else found
        return found if isinstance(found, tuple) and len(found) == self.num_envs else (found,) * self.num_envs

    def _check_begun(self, what: str) -> None:
        if not self._begun:
            raise ConfigurationError(what, "a reset before it", "none yet", "Call reset(seed=0), or without a seed.")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_pictures": None}


def target_of(device: str) -> Any:
    """Target of kernels for worlds on a device."""
    return "cpu" if check_device(device) == "cpu" else "cuda"


def up_of(q: Array) -> tuple[Array, Array, Array]:
    """The direction of up in the axes of free links, (n,) each, of configurations (n, nq)."""
    x, y, z, w = q[:, 3], q[:, 4], q[:, 5], q[:, 6]
    return 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)
