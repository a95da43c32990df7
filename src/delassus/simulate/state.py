"""States that a simulator starts at and goes on from, checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from delassus.accuracy.closed_loops import at_configurations
from delassus.algorithms.jacobian import jacobian
from delassus.contact.contacts import ContactSet
from delassus.contact.scene import Scene
from delassus.contact.sparse.stepper import IMPULSES, SLEEP, BlockSteps
from delassus.errors import ConfigurationError, ModelError, shown
from delassus.model.check import check_text, check_whole, finite_array
from delassus.quantities.keywords import Control
from delassus.solvers.results import SolverStatus
from delassus.spatial.rotations import Array

PREFIX = "contacts_"
"""Of the names of a contact set's arrays in the state of a simulator."""

MOST_NAMED = 10
"""Pairs of colliders that a message names."""

ANY_OVERLAP = float(np.finfo(float).max)
"""Overlap (m, rad) that a state in the middle of a run may have: more than is allowed at a start."""

ROUNDING = 4.0 * float(np.finfo(float).eps)
"""Round-off of entries of unit quaternions."""

PASS_ALL = "Pass what get_state returned."


S = TypeVar("S", bound=Any)
"""`delassus.Simulator`, which is built on this."""


class Fixed:
    """An attribute that is set once; steps have followed it from the start on."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, at: Any, owner: type | None = None) -> Any:
        return self if at is None else at.__dict__[self._name]

    def __set__(self, at: Any, value: Any) -> None:
        if self._name in at.__dict__:
            advice = f"Make another simulator with {self._name}=, and go on by set_state."
            raise ConfigurationError(f"sim.{self._name}", "that of its start", shown(value), advice)
        at.__dict__[self._name] = value


class Settable:
    """State of a simulator, which may be set at any time, and numbers that may not; base of `Simulator`."""

    scene: Scene
    _q: Array
    _v: Array
    _tau: Array
    dt: float = cast(float, Fixed())
    tolerance: float = cast(float, Fixed())
    control: Control = cast("Control", Fixed())
    kp: Array = cast("Array", Fixed())
    kd: Array = cast("Array", Fixed())

    @property
    def q(self) -> Array:
        """Configuration (nq,), in the order of ``scene.tree``; set it as an array or a list of numbers.

        A body that you move stands where you set it to, until you move it again.

        Raises
        ------
        ConfigurationError
            Not ``nq`` finite numbers, or a quaternion whose length is off by more than 1e-6.
        """
        return self._q

    @q.setter
    def q(self, q: ArrayLike) -> None:
        checked = one_state("q", self.scene.tree.check_configuration(q))
        given = np.array(q, dtype=float)
        is_unit = np.abs(given - checked).max(initial=0.0) <= ROUNDING
        new = given if is_unit else np.array(checked)  # normalised once more, the last bit may be another one
        self._stand_at(new)
        self._q = new

    def _stand_at(self, q: Array) -> None:
        """Have bodies that the user moves stand where a configuration puts them, if that is elsewhere."""
        raise NotImplementedError

    @property
    def v(self) -> Array:
        """Velocity (nv,); set it as an array or a list of numbers.

        Raises
        ------
        ConfigurationError
            Not ``nv`` finite numbers.
        """
        return self._v

    @v.setter
    def v(self, v: ArrayLike) -> None:
        self._v = np.array(one_state("v", self.scene.tree.check_velocity(v)))

    @property
    def tau(self) -> Array:
        """Joint forces (nv,) of the last step (N m, N); set what `half_kick` goes back by as an array or a list.

        Raises
        ------
        ConfigurationError
            Not ``nv`` finite numbers.
        """
        return self._tau

    @tau.setter
    def tau(self, tau: ArrayLike) -> None:
        self._tau = np.array(one_state("tau", self.scene.tree.check_velocity(tau, "tau")))


class RestOfState(NamedTuple):
    """All of it but configuration and velocity; ``impulses`` at contacts (n, 3) by their names."""

    steps: int
    rng: Any
    status: SolverStatus
    statuses: Counter[SolverStatus]
    contacts: ContactSet
    impulses: dict[str, Array]
    on_joints: Array
    sleep: list[Array]


def one_state(name: str, array: Array) -> Array:
    """The array, if it is of one state."""
    if array.ndim != 1:
        raise ConfigurationError(
            name, f"one state, shape {array.shape[-1:]}", f"shape {array.shape}", "Drop the batch."
        )
    return array


def checked_state(state: Any, names: Iterable[str], scene: Scene, rng: np.random.Generator) -> RestOfState:
    """A state with these names, of a simulator of this scene with such a generator.

    Raises
    ------
    ConfigurationError
        Not all of it, or that of another scene.
    """
    if not isinstance(state, Mapping):
        raise ConfigurationError("state", "what get_state returned", shown(state), "Pass all of it.")
    missing = sorted(set(names) - state.keys())
    if missing:
        raise ConfigurationError("state", "what get_state returned", f"no {', '.join(missing)}", "Pass all of it.")
    tree = scene.tree
    one_state("q of the state", tree.check_configuration(state["q"], "q of the state"))
    one_state("v of the state", tree.check_velocity(state["v"], "v of the state"))
    contacts = ContactSet(**{name: state[PREFIX + name] for name in ContactSet.__slots__})
    n = len(contacts), 3
    impulses = {name: finite_array(state[name], n, f"{name} of the state", PASS_ALL) for name in IMPULSES}
    for name, count in (("links", tree.n_links), ("colliders", len(scene.colliders))):
        most = getattr(contacts, name).max(initial=-1)
        if most >= count:
            raise ConfigurationError(f"{name} of the state", f"{count} {name}", f"number {most}", PASS_ALL)
    on_joints = finite_array(state["joint_impulses"], (2, tree.nv), "joint_impulses of the state", PASS_ALL)
    if scene.moved:
        finite_array(state["moved"], (len(scene.moved), 7), "moved of the state", PASS_ALL)
    sizes = {"links": tree.n_links, "nq": tree.nq, "nv": tree.nv}
    axes = {name: (sizes[kind.split()[1]],) for name, kind in SLEEP.items()}
    sleep = [finite_array(state[name], axis, f"{name} of the state", PASS_ALL) for name, axis in axes.items()]
    if sleep[0].min(initial=0) < 0 or sleep[0].max(initial=0) > tree.n_links:
        wanted = f"numbers from 0 to {tree.n_links}"
        raise ConfigurationError("islands of the state", wanted, shown(sleep[0].tolist()), PASS_ALL)
    steps = check_whole("steps of the state", state["steps"], PASS_ALL, most=2**53)
    generator = type(rng.bit_generator)()
    try:
        generator.state = state["rng"]
        status = SolverStatus[check_text("status", state["status"], PASS_ALL)]
        statuses = Counter({SolverStatus[name]: check_whole(name, k, "") for name, k in state["statuses"].items()})
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        came = f"{type(error).__name__}: {error}"
        raise ConfigurationError("state", "a generator and statuses", came, PASS_ALL) from error
    return RestOfState(steps, state["rng"], status, statuses, contacts, impulses, on_joints, sleep)


def restored(simulator: Callable[..., S], scene: Scene, options: Mapping[str, Any], state: Mapping[str, Any]) -> S:
    """A simulator of a scene with these options that goes on from what ``get_state`` returned."""
    made = simulator(scene, q0=state["q"], v0=state["v"], max_overlap=ANY_OVERLAP, **options)
    made.set_state(state)
    return made


def checked_start(steps: BlockSteps, q: Array, v: Array, max_overlap: float) -> ContactSet:
    """Contacts at the start, whose links have inertia, loops are closed and bodies do not overlap.

    Raises
    ------
    ConfigurationError, ModelError
        They have not, are not or do.
    """
    scene = steps.blocks.scene
    contacts, errors, singular = steps.inspect(q, v)
    if not np.isfinite(steps.blocks.bodies.Q).all():
        for loop in (*scene.loops, *scene.springs):
            (rows,) = at_configurations(scene.tree, [loop], q[None], lambda at: [jacobian(at)])
            if not np.isfinite(rows).all():
                wanted, came = "a Distance whose ends are apart", f"{loop!r}, whose ends coincide"
                raise ConfigurationError("q0", wanted, came, "Move them apart, or hold them together by a Point.")
    if singular is not None:
        link = scene.tree.link_names[singular]
        raise ModelError(f"link {link!r}", "a body that has inertia along its joint", "none", "Give it mass.")
    for loop, error in zip(scene.loops, errors, strict=True):
        gap = float(np.abs(error).max(initial=0.0))
        if gap > max_overlap:
            raise ConfigurationError(
                "q0",
                f"loops that are closed within {max_overlap:g} (m, rad)",
                f"{loop!r}, open by {gap:.3g}",
                "Close it at the start, or raise max_overlap: the first steps then pull it together.",
            )
    deep = contacts.colliders[contacts.depths > max_overlap]
    if len(deep):
        names = [c.name for c in scene.colliders]
        pairs = list(dict.fromkeys(f"{names[a]!r} and {names[b]!r}" for a, b in deep.tolist()))
        raise ConfigurationError(
            "q0",
            f"bodies that overlap by at most {max_overlap:g} m",
            f"an overlap of up to {contacts.depths.max():.3g} m of colliders "
            f"{', '.join(pairs[:MOST_NAMED])}{', …' if len(pairs) > MOST_NAMED else ''}",
            "Move them apart (`scene.set_down` puts a robot on the ground), list the pair in the scene's `ignore`, "
            "or raise max_overlap.",
        )
    return contacts
