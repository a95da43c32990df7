"""Identification: parameters of a compiled time step that make its trajectories those that were measured.

Least squares by Gauss–Newton steps in a trust region (scipy), whose Jacobian is that of the trajectories: the kernel of
tangents, step by step, for all trajectories and parameters at once. Payloads are by log-Cholesky, so that each is an
inertia that a body can have. Source: Rucker and Wensing 2022 (log-Cholesky); White 1980 (errors of the estimates).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.errors import ConfigurationError, require, shown, unknown_name
from delassus.model.check import check_whole
from delassus.runtime.kernel import Kernel
from delassus.runtime.rollout import rollout
from delassus.runtime.sub_steps import STATE
from delassus.spatial.rotations import Array

UPPER = np.triu_indices(4)
SECOND_MOMENTS = [(0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)]
"""Order of the inertia in a payload."""
RANK = 1e-7
"""Directions are unknown whose residuals are smaller than this part of what parameters make one by one."""
TURN = 1e-6
"""Change of configurations of which tangents of residuals are differences."""


@dataclass(frozen=True, slots=True)
class Identified:
    """Estimates of parameters.

    Attributes
    ----------
    values, errors : dict of arrays
        Arguments of the kernel by name, and their standard errors, infinite where the data do not say.
    residual : float
        Root of the mean square of residuals over ``scale``.
    evaluations : int
        How often all trajectories were simulated.
    converged : bool
    """

    values: dict[str, Array]
    errors: dict[str, Array]
    residual: float
    evaluations: int
    converged: bool


class Parameter:
    """Coordinates of an argument: its entries, those of a smaller array, or log-Cholesky ones of a payload."""

    def __init__(self, name: str, shape: tuple[int, ...], start: ArrayLike) -> None:
        given = np.asarray(start, dtype=float)
        self.name, self.shape, self.own, self.is_inertia = name, shape, given.shape, name.startswith("payload")
        try:
            np.broadcast_to(given, shape)
            self.start = _log_cholesky(given) if self.is_inertia else given.ravel()
        except (ValueError, np.linalg.LinAlgError) as error:
            wanted = "mass and inertia of a body" if self.is_inertia else f"an array that broadcasts to {shape}"
            raise ConfigurationError(
                f"start of {name}", wanted, shown(start), "It is where the search starts."
            ) from error

    def at(self, x: Array) -> tuple[Array, Array]:
        """The argument, and its derivatives (coordinates, shape)."""
        if self.is_inertia:
            return _payload(x)
        units = np.eye(x.size).reshape(x.size, *(1,) * (len(self.shape) - len(self.own)), *self.own)
        return np.broadcast_to(x.reshape(self.own), self.shape), np.broadcast_to(units, (x.size, *self.shape))


def _log_cholesky(payload: Array) -> Array:
    """Coordinates (10,) of a payload (10,)."""
    P = np.zeros((4, 4))
    for k, (i, j) in enumerate(SECOND_MOMENTS):
        P[i, j] = P[j, i] = -payload[4 + k]
    P[range(3), range(3)] += 0.5 * (payload[4] + payload[6] + payload[9])
    P[3, :3], P[:3, 3], P[3, 3] = payload[1:4], payload[1:4], payload[0]
    U = np.linalg.cholesky(P[::-1, ::-1])[::-1, ::-1]
    return np.array([np.log(U[i, j]) if i == j else U[i, j] for i, j in zip(*UPPER, strict=True)])


def _payload(x: Array) -> tuple[Array, Array]:
    """Payload (10,) at coordinates, and its derivatives (10, 10): ``P = U Uᵀ``, ``I = tr(Σ) − Σ``."""
    U, dU = np.zeros((4, 4)), np.zeros((10, 4, 4))
    for k, (i, j) in enumerate(zip(*UPPER, strict=True)):
        U[i, j] = np.exp(x[k]) if i == j else x[k]
        dU[k, i, j] = U[i, j] if i == j else 1.0
    dP = dU @ U.T
    P = np.concatenate([(U @ U.T)[None], dP + np.swapaxes(dP, 1, 2)])
    trace = P[:, 0, 0] + P[:, 1, 1] + P[:, 2, 2]
    moments = [trace * (i == j) - P[:, i, j] for i, j in SECOND_MOMENTS]
    both = np.stack([P[:, 3, 3], *P[:, :3, 3].T, *moments], axis=1)
    return both[0], both[1:]


class Trajectories:
    """Residuals of trajectories (N · n · nv,) at coordinates, and their Jacobian."""

    def __init__(
        self, kernel: Kernel, measured: tuple[Array, Array], run: tuple[ArrayLike, ArrayLike], every: int,
        scale: Array, parameters: list[Parameter], others: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.kernel, self.tree, self.parameters, self.every, self.scale = (
            kernel,
            kernel.request.tree,
            parameters,
            every,
            scale,
        )
        (self.q, self.v0), (self.controls, self.dt), self.others = measured, run, others
        self.known: NDArray[np.bool_] = np.asarray(np.isfinite(self.q).all(axis=-1))
        self.ends = np.cumsum([0, *(p.start.size for p in parameters)])

    def at(self, x: Array) -> list[tuple[Array, Array]]:
        """Each argument, and its derivatives."""
        return [p.at(x[a:b]) for p, a, b in zip(self.parameters, self.ends, self.ends[1:], strict=False)]

    def simulate(self, x: Array) -> list[Array]:
        """Trajectories of states (T + 1, n, …)."""
        given = {p.name: value for p, (value, _) in zip(self.parameters, self.at(x), strict=True)}
        found = rollout(
            self.kernel, self.q[0], self.v0, self.controls, self.dt, time_axis=0, **{**self.others, **given}
        )
        return list(found[: self.kernel.request.states])

    def _apart(self, q: Array) -> Array:
        """From measured to simulated configurations (N, n, nq), over the scale; zero where nothing is measured."""
        wanted = np.where(self.known[..., None], self.q, q)
        return np.asarray(self.tree.difference(wanted[1:], q[1:]) / self.scale)

    def residuals(self, x: Array) -> Array:
        """Of all that was measured."""
        return self._apart(self.simulate(x)[0][:: self.every]).ravel()

    def jacobian(self, x: Array) -> Array:
        """Derivatives (N · n · nv, coordinates), by tangents of each step."""
        states, arguments = self.simulate(x), self.at(x)
        kernel, back = self.kernel, self.kernel.derivative("jvp")
        n_states, n, size = len(states), self.q.shape[1], x.size
        fixed: dict[str, Any] = {**self.others, "dt": self.dt}
        turns: dict[str, Array] = {}
        for p, (value, change), a in zip(self.parameters, arguments, self.ends, strict=False):
            fixed[p.name] = value
            turns[p.name] = np.zeros((size, 1, *p.shape))
            turns[p.name][a : a + len(change), 0] = change
        names = [a.name for a in kernel.arguments]
        later = [turns.get(a.name, np.zeros(a.shape)) for a in kernel.arguments[n_states:]]
        moved = [np.zeros((size, n, *a.shape)) for a in kernel.arguments[:n_states]]
        out, controls = [], np.asarray(self.controls)
        for t in range(len(controls)):
            # impulses after the step solve it: sweeps end at once
            now = [states[0][t], states[1][t], *(p[t + 1] for p in states[STATE:])]
            rest = [controls[t] if name == kernel.request.control else fixed[name] for name in names[n_states:]]
            moved[:STATE] = back(*now, *rest, *moved, *later)[:STATE]
            if not (t + 1) % self.every:
                out.append(moved[0])
        q = states[0][:: self.every]
        step = TURN / max(1.0, float(np.nanmax(np.abs(out), initial=0.0)))
        turned = [
            np.concatenate([q[:1], q[1:] + s * np.array([x[k] for x in out])])
            for k in range(size)
            for s in (step, -step)
        ]
        ends = [self._apart(x) for x in turned]
        columns = [(a - b).ravel() / (2 * step) for a, b in zip(ends[::2], ends[1::2], strict=True)]
        return np.stack(columns, axis=1)


def _spread(of: Trajectories, x: Array, robust: bool) -> tuple[Array, Array]:
    """Covariance of the estimates, and a projection on the directions that the data say nothing about."""
    r, J, n = of.residuals(x), of.jacobian(x), of.q.shape[1]
    if robust:
        weight = (1.0 + r * r) ** -0.25
        r, J = weight * r, weight[:, None] * J
    norms = np.linalg.norm(J, axis=0)
    norms[norms == 0.0] = 1.0
    _, sizes, V = np.linalg.svd(J / norms, full_matrices=False)
    some = sizes > RANK * max(1.0, sizes[0])
    inverse = (V[some].T / sizes[some] ** 2) @ V[some] / np.outer(norms, norms)
    if n > 2 * x.size:
        parts = (len(of.q) - 1, n, of.tree.nv)
        gradients = np.einsum("tnv,tnvk->nk", r.reshape(parts), J.reshape(*parts, x.size))
        covariance = inverse @ gradients.T @ gradients @ inverse * n / (n - 1)
    else:
        covariance = inverse * (r @ r) / (of.known[1:].sum() * of.tree.nv - x.size)
    return covariance, V[~some].T @ V[~some]


def identify(
    kernel: Kernel,
    q: ArrayLike,
    v0: ArrayLike,
    controls: ArrayLike,
    dt: ArrayLike,
    start: Mapping[str, ArrayLike],
    *,
    bounds: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    every: int = 1,
    scale: ArrayLike = 1.0,
    loss: Literal["linear", "soft_l1"] = "linear",
    **others: Any,
) -> Identified:
    """Estimate arguments of a time step from measured trajectories, by least squares.

    Parameters
    ----------
    kernel : Kernel
        Compiled "contact_step" or "step".
    q : (N + 1, nq) or (N + 1, n, nq) array_like
        Measured configurations, time first, of one or of n trajectories; all NaN where nothing was measured, but not at
        the start.
    v0 : (nv,) or (n, nv) array_like
        Velocities at the start.
    controls, dt, others
        As in `delassus.rollout`: N · ``every`` steps.
    start : dict
        Where the search starts, by names of arguments, such as ``"friction"``, ``"restitution"``, ``"payload0"``:
        arrays that broadcast to the argument's shape, such as one number for all contacts. Payloads (10,) are those of
        a body that has volume.
    bounds : dict, optional
        Least and largest value of those that are no payloads.
    every : int
        Steps between two measurements.
    scale : (nv,) array_like or float
        Standard deviation of measurements (m, rad), along `Tree.difference`.
    loss : {"linear", "soft_l1"}
        Squares, or squares that grow linearly beyond ``scale``: for trajectories some of which go another way.

    Contacts that bounce do so at whole numbers of steps: trajectories jump where that number changes, which derivatives
    do not see. Those by parameters are right up to the second bounce; after it, estimates may end at such a jump.

    Returns
    -------
    Identified
        Estimates with standard errors: from the scatter of the gradients of trajectories where these are more than
        twice as many as the parameters, and otherwise from that of residuals, as if each were by itself.

    Raises
    ------
    ConfigurationError, UnknownNameError
        Arrays of other shapes, and arguments that the kernel has not.
    MissingDependencyError
        scipy is not installed.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> from delassus_studies.identify import identify
    >>> ball = ds.mechanisms.free_body(1.0, 0.004 * np.eye(3), name="ball")
    >>> contact = ds.Contact("ball", ds.contact.Sphere(0.1))
    >>> step = ds.compile(ball, contact, "contact_step", friction="input", tolerance=1e-8)
    >>> q0, v0, none = [0, 0, 0.1, 0, 0, 0, 1.0], [1.0, 0, 0, 0, 0, 0], np.zeros((100, 6))
    >>> q = ds.rollout(step, q0, v0, none, 1e-3, friction=[0.3])[0]
    >>> found = identify(step, q, v0, none, 1e-3, {"friction": 0.1}, bounds={"friction": (0, 1)})
    >>> found.values["friction"].round(5).tolist()
    [0.3]
    """
    require("scipy", "contact", "to identify parameters")
    from scipy.optimize import least_squares

    if not isinstance(kernel, Kernel) or not kernel.request.states:
        raise ConfigurationError("kernel", "a compiled time step", shown(kernel), "Compile a contact_step.")
    arguments = {a.name: a for a in kernel.arguments[kernel.request.states :]}
    for name in start:
        if name not in arguments or name in ("dt", kernel.request.control):
            raise unknown_name("argument to identify", name, sorted({*arguments} - {"dt", kernel.request.control}))
    check_whole("every", every, "Steps between two measurements.", least=1)
    parameters = [Parameter(name, arguments[name].shape, x) for name, x in start.items()]
    measured, tree = np.asarray(q, dtype=float), kernel.request.tree
    batch = measured.reshape(len(measured), -1, tree.nq) if measured.ndim in (2, 3) else np.empty((0, 0, 0))
    steps = (len(batch) - 1) * every
    if batch.size == 0 or np.shape(controls)[:1] != (steps,):
        came = f"q {np.shape(q)}, controls {np.shape(controls)} and every {every}"
        wanted = f"q (N + 1, {tree.nq}) or (N + 1, n, {tree.nq}) and N · every controls"
        raise ConfigurationError("q", wanted, came, "Time is the first axis.")
    v = np.broadcast_to(np.asarray(v0, dtype=float), (batch.shape[1], tree.nv))
    trajectories = Trajectories(
        kernel, (batch, v), (controls, dt), every, np.broadcast_to(scale, (tree.nv,)), parameters, others
    )
    low, high = (
        np.concatenate([np.broadcast_to((bounds or {}).get(p.name, (-np.inf, np.inf))[k], p.own).ravel()
                        if not p.is_inertia else np.full(10, (2 * k - 1) * np.inf) for p in parameters])
        for k in range(2)
    )  # fmt: skip
    begin = np.concatenate([p.start for p in parameters])
    found = least_squares(
        trajectories.residuals, begin, trajectories.jacobian, (low, high), x_scale="jac", loss=loss, xtol=1e-10
    )
    covariance, hidden = _spread(trajectories, found.x, loss == "soft_l1")
    values, errors = {}, {}
    for p, (value, change), a in zip(parameters, trajectories.at(found.x), trajectories.ends, strict=False):
        flat, own = change.reshape(len(change), -1), slice(a, a + len(change))
        variance, unknown = (np.einsum("ia,ij,ja->a", flat, C[own, own], flat) for C in (covariance, hidden))
        free = unknown > RANK * np.einsum("ia,ia->a", flat, flat)
        values[p.name] = np.array(value)
        errors[p.name] = np.sqrt(np.where(free, np.inf, variance)).reshape(p.shape)
    rms = float(np.sqrt(np.sum(found.fun**2) / (trajectories.known[1:].sum() * tree.nv)))
    return Identified(values, errors, rms, int(found.nfev), bool(found.success))
