"""`exciting_motion`: a motion in which joint forces show inertial parameters as well as they can.

Displacements of all degrees of freedom are Fourier series in time, as large as limits allow. Their coefficients come
from a random search, best of several at a time, for the least condition number of the base regressor, its columns
scaled to length one: standard errors of base parameters are as even then as can be.

A base that floats has no motors. As bodies fall alike, regressors in a frame that falls with the robot are those
without gravity; with no momentum there,

    v_b = −M_bb⁻¹ M_bj q̇_j,   v̇_b = −M_bb⁻¹ (M_bj q̈_j + c_b),

in the axes of the base, in which no matrix depends on where the base is: its path is needed for the configurations
alone. Which parameters can be told apart without gravity and momentum, regressors of random motions say.

Source: Swevers, Ganseman, Tükel, De Schutter and Van Brussel, "Optimal robot excitation and identification", T-RA 1997;
Gautier and Khalil 1992 (condition numbers); Umetani and Yoshida 1989 (free-floating robots).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from delassus.api.regressors import BaseParameters, base_of_regressors
from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import check_choice, check_number, check_whole, real_array
from delassus.model.tree import Tree
from delassus.runtime.compile import compile
from delassus.spatial.joint_kinds import usual_range
from delassus.spatial.rotations import Array

UNBOUNDED = np.pi
"""Reach to the sides on which joints have no limits, rad or m."""

WITHIN = 0.9
"""Part of a joint's range that is used."""

PARENTS = 50
"""Random motions that the search begins with."""

CHILDREN = 24
"""Trials of each round of the search."""

SPREAD = 0.3
"""Distance of the first trials from the best motion."""

COARSE, FINE, ENOUGH, MOST = 20, 16, 4, 10**6
"""Samples a harmonic of which extremes and condition numbers of the search are; steps from sample to sample in which a
base is placed; random motions of which base parameters are found; largest numbers."""

WIDER = 1.3
"""Factor of the spread after a round that found a better motion."""

NARROWER = 0.85
"""Factor of the spread after a round that did not."""


@dataclass(frozen=True, slots=True, eq=False)
class ExcitingMotion(Frozen):
    """One period of a motion in which inertial parameters show; inputs of `regressor` and `inverse_dynamics`.

    Attributes
    ----------
    times : (T,) array
        In s.
    q : (T, nq) array
    v, qdd : (T, nv) arrays
        Velocities and accelerations, in m, rad and s.
    gravity : (3,) array
        That of the frame of the motion: zero of a base that falls freely, else the robot's.
    base : BaseParameters
        Combinations of parameters that such motions tell apart.
    condition : float
        Condition number of their regressor over the motion, with columns of length one.
    usual : float
        The same of random motions within the same limits, median.

    Examples
    --------
    >>> import delassus as ds
    >>> motion = ds.exciting_motion(ds.mechanisms.chain(2), rounds=20)
    >>> motion.q.shape, motion.condition < motion.usual
    ((200, 2), True)
    """

    times: Array
    q: Array
    v: Array
    qdd: Array
    gravity: Array
    base: BaseParameters
    condition: float
    usual: float

    def __post_init__(self) -> None:
        self._make_read_only("times", "q", "v", "qdd", "gravity")


class _Motions:
    """Motions of a robot by coefficients of series (n, 2 harmonics, nv)."""

    def __init__(
        self, tree: Tree, base: str, period: float, harmonics: int, travel: tuple[float, float], speed: float
    ) -> None:
        self._regressor = compile(tree, (), "regressor", outputs="tau", gravity="input")
        check_choice("base", base, ("driven", "floats"), ConfigurationError)
        floats = base == "floats" and bool(tree.n_links) and tree.joints[0].nv == 6
        if floats and any(p < 0 for p in tree.parents[1:]):
            raise ConfigurationError(
                "tree", "one robot on its floating base", f"{tree.name!r}", "Take its parts one by one."
            )
        period, speed = check_number("period", period, "In s, as 10."), check_number("speed", speed, "In rad/s, as 3.")
        check_whole("harmonics", harmonics, "A whole number.", least=1, most=MOST)
        reach = real_array(travel)
        if reach is None or reach.shape != (2,) or not ((reach > 0.0) & np.isfinite(reach)).all():
            raise ConfigurationError("travel", "two positive numbers, m and rad", shown(travel), "As (0.1, 0.3).")
        self.tree, self.floats, self.period, self.harmonics = tree, floats, period, harmonics
        self.gravity = np.zeros(3) if floats else np.array(tree.gravity)
        lower, upper = usual_range(tree.lower, tree.upper, UNBOUNDED)
        self._middle, self._reach = 0.5 * (lower + upper), WITHIN * 0.5 * (upper - lower)
        self._fastest = np.where(np.isfinite(tree.velocity_limit), tree.velocity_limit, speed)
        self._parts = [
            (sq, sv) for j, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True) if j.nv > 1
        ]
        for joint, sv in zip(tree.joints, tree.v_slices, strict=True):
            if joint.nv > 1:
                self._middle[sv] = 0.0
                self._reach[sv] = [reach[int(axis >= 3)] for axis in joint.kind.motion_axes]
        if floats:
            self._inertia = compile(tree, (), "mass_matrix")
            self._forces = compile(tree, (), "inverse_dynamics", passive="none", gravity="input")

    def series(self, x: Array, samples: int) -> tuple[Array, Array, Array]:
        """Displacements, velocities and accelerations (n, samples, nv), as large as limits allow."""
        w = 2 * np.pi / self.period * np.tile(np.arange(1, self.harmonics + 1), 2)

        def at(count: int) -> tuple[Array, Array, Array]:
            phase = w * np.linspace(0, self.period, count, endpoint=False)[:, None]
            phase = phase + np.repeat([0.0, np.pi / 2], self.harmonics)
            return np.sin(phase) @ x, (w * np.cos(phase)) @ x, (-(w**2) * np.sin(phase)) @ x

        most, fastest = (np.abs(a).max(axis=-2, keepdims=True) for a in at(COARSE * self.harmonics)[:2])
        size = np.minimum(self._reach / most, self._fastest / fastest)
        moved, v, qdd = at(samples)
        return size * moved, size * v, size * qdd

    def states(self, x: Array, samples: int, placed: bool = True) -> tuple[Array, Array, Array]:
        """Configurations, velocities and accelerations; a base that floats may stay where it begins: not ``placed``."""
        moved, v, qdd = self.series(x, samples)
        for _, sv in self._parts:
            moved[..., sv] = 0.0
        q = self.tree.integrate(self.tree.neutral(), self._middle + moved)
        self._place(q, v, qdd, self._parts[self.floats :])
        if self.floats:
            v[..., :6] = qdd[..., :6] = 0.0
            M = self._inertia(q)
            inverse = np.linalg.inv(M[..., :6, :6])
            v[..., :6] = -(inverse @ (M[..., :6, 6:] @ v[..., 6:, None]))[..., 0]
            wrench = self._forces(q, v, qdd, self.gravity)[..., :6, None]
            qdd[..., :6] = -(inverse @ wrench)[..., 0]
            if placed:
                self._place(q, v, qdd, self._parts[:1])
        return q, v, qdd

    def _place(self, q: Array, v: Array, qdd: Array, parts: Sequence[tuple[slice, slice]]) -> None:
        """Put joints of several degrees of freedom where their velocities lead, from sample to sample."""
        if not parts:
            return
        dt, onward = self.period / q.shape[-2], np.zeros_like(v[..., 1:, :])
        mean = 0.5 * dt * (v[..., :-1, :] + v[..., 1:, :]) + dt**2 / 12 * (qdd[..., :-1, :] - qdd[..., 1:, :])
        for _, sv in parts:
            onward[..., sv] = mean[..., sv]
        for k in range(q.shape[-2] - 1):
            after = self.tree.integrate(q[..., k, :], onward[..., k, :])
            for sq, _ in parts:
                q[..., k + 1, sq] = after[..., sq]

    def regressors(self, x: Array, samples: int) -> Array:
        """Regressors (n, samples · nv, 10 n) over motions."""
        Y = self._regressor(*self.states(x, samples, placed=False), self.gravity)
        return np.asarray(Y.reshape(*Y.shape[:-3], -1, Y.shape[-1]))

    def conditions(self, x: Array, samples: int, columns: NDArray[np.intp]) -> Array:
        """Condition numbers (n,) of base regressors, their columns scaled to length one."""
        Y = self.regressors(x, samples)[..., columns]
        Y = Y / np.linalg.norm(Y, axis=-2, keepdims=True)
        sizes = np.linalg.eigvalsh(np.swapaxes(Y, -1, -2) @ Y)
        return np.asarray(np.sqrt(sizes[..., -1] / np.maximum(sizes[..., 0], np.finfo(float).tiny)))

    def better(
        self, best: Array, least: float, columns: NDArray[np.intp], rounds: int, rng: np.random.Generator
    ) -> Array:
        """Motion of the least condition that an evolution strategy finds, from one of condition ``least`` on."""
        samples, spread = COARSE * self.harmonics, SPREAD
        for _ in range(rounds):
            trials = best + spread * rng.normal(size=(CHILDREN, *best.shape))
            conditions = self.conditions(trials, samples, columns)
            better = bool(conditions.min() < least)
            if better:
                best, least = trials[conditions.argmin()], float(conditions.min())
            spread *= WIDER if better else NARROWER
        return best


def exciting_motion(
    tree: Tree,
    *,
    base: Literal["floats", "driven"] = "floats",
    period: float = 10.0,
    harmonics: int = 5,
    samples: int = 200,
    travel: tuple[float, float] = (0.1, 0.3),
    speed: float = 3.0,
    rounds: int = 100,
    seed: int = 0,
) -> ExcitingMotion:
    """Find a motion of a robot in which joint forces show its inertial parameters.

    Displacements are Fourier series in time within limits of joints and of their velocities; collisions are not looked
    at. A floating base has no motors: it moves as the dynamics of the tree say, without momentum in a frame that falls
    freely, or it is ``"driven"`` along series of its own, by a crane or a platform that measures its wrench.

    Parameters
    ----------
    tree : Tree
    base : {"floats", "driven"}
        How a base moves that a free joint ties to the world; of a fixed base both are the same.
    period : float
        In s.
    harmonics : int
        Of each series.
    samples : int
        States that are returned.
    travel : (float, float)
        Reach of joints of several degrees of freedom, of a driven base too, to either side of the neutral
        configuration, along each axis in m and in rad.
    speed : float
        Largest velocity of joints that have no limit, rad/s or m/s.
    rounds : int
        Of the search.
    seed : int
        Of its random numbers.

    Returns
    -------
    ExcitingMotion

    Raises
    ------
    ConfigurationError, UnknownNameError
        Numbers out of range; a robot that has nothing to identify.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(2)
    >>> motion = ds.exciting_motion(arm, rounds=20)
    >>> Y = ds.regressor(arm, motion.q, motion.v, motion.qdd)[..., motion.base.columns]
    >>> Y = Y.reshape(-1, motion.base.columns.size)
    >>> bool(np.linalg.cond(Y / np.linalg.norm(Y, axis=0)) < motion.usual)
    True
    """
    for (name, x), least in zip({"samples": samples, "rounds": rounds, "seed": seed}.items(), (4, 0, 0), strict=True):
        check_whole(name, x, "A whole number.", least=least, most=MOST)
    motions, rng = _Motions(tree, base, period, harmonics, travel, speed), np.random.default_rng(seed)
    starts, coarse = rng.normal(size=(PARENTS, 2 * harmonics, tree.nv)), COARSE * harmonics
    of = base_of_regressors(tree, motions.regressors(starts[:ENOUGH], coarse).reshape(-1, 10 * tree.n_links))
    if not of.columns.size:
        raise ConfigurationError("tree", "a robot whose joint forces show inertia", f"{tree.name!r}", "Nothing moves.")
    found = motions.conditions(starts, coarse, of.columns)
    best = motions.better(starts[found.argmin()], float(found.min()), of.columns, rounds, rng)
    q, v, qdd = (x[::FINE] for x in motions.states(best, FINE * samples))
    times, condition = np.linspace(0, period, samples, endpoint=False), motions.conditions(best, samples, of.columns)
    return ExcitingMotion(times, q, v, qdd, motions.gravity, of, float(condition), float(np.median(found)))
