"""`identify`: parameters of a kernel that make its results those that were measured.

Least squares by Gauss–Newton steps (`accuracy.least_squares`), whose Jacobian is that of compiled kernels, carried
along trajectories step by step. Inertias are those that bodies can have. What each window of a trajectory starts from
is eliminated: of its residuals ``f`` with derivatives ``J`` by parameters and ``S`` by the start, parameters see
``(1 − S S⁺) J``, and the start moves by ``−S⁺ (f + J δ)``, which a window takes if that makes its residuals less; of
``S⁺ f`` it tries half as much the next time if not.

Residuals of one trajectory have errors in common: where there are enough of these, the covariance is that of clusters.

Source: Kaufman 1975 (variable projection); Bock 1987 (multiple shooting).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from delassus.accuracy.least_squares import RANK, Domain, Minimum, body_coordinates, clustered, least_squares
from delassus.errors import ConfigurationError, shown, unknown_name, warn
from delassus.frozen import Frozen, read_only
from delassus.model.check import check_choice, check_whole, real_array
from delassus.model.inertia import parameters_in_frame
from delassus.model.tree import Tree
from delassus.runtime.kernel import Kernel
from delassus.runtime.measured import Measured, Samples, Starts, Windows, deviations
from delassus.runtime.rollouts.step_tangents import Mask, Values
from delassus.spatial.rotations import Array

HUBER = 1.345
"""Residuals over the scale beyond which they count linearly: 95 % of the efficiency of squares where errors are normal
(Huber 1981)."""

SMALLEST = 1e-8
"""Relative singular value of derivatives by starts below which a direction of these is held."""

MOST = 10**6
"""Steps between two measurements, and measurements in a window, at most."""


@dataclass(frozen=True, slots=True)
class Identification(Frozen):
    """Estimates of parameters; `str` of it is a table.

    Attributes
    ----------
    values : dict of arrays
        Arguments of the kernel by name, to be passed to it.
    errors : dict of arrays
        Their standard errors, infinite where the measurements do not say; of the shape that ``start`` has.
    names : tuple of str
        Entries of what was estimated, one after the other, such as ``"payload0[3]"``.
    estimates : (m,) array
    root : (m, r) array
        Root of their covariance, ``root @ root.T``, along the r directions that the measurements determine: that of
        ``clusters``, or ``σ² (JᵀJ)⁻¹``, as if each residual had an error of its own.
    hidden : (m, h) array
        Directions in which they may change without a change of what is measured. Of payloads the estimate is the one
        nearest to the start among them, by the divergence of Lee, Wensing and Park 2020.
    clusters : int
        Trajectories, each with errors that its residuals have in common (Liang and Zeger 1986), which takes more of
        them than parameters; else 0.
    residual : float
        ``σ``, root of the mean square of residuals over ``scale``: about 1 where the kernel is right and ``scale`` too.
    units, unsolved : int
        Samples, or windows of trajectories, and how many of them the kernel has not solved at the estimate: these take
        no part.
    evaluations : int
        How often all units were computed.
    converged : bool
        Whether the search ended at a minimum: the next Gauss–Newton step would move no combination of estimates by more
        than a tenth of its standard error. Not so where it stopped at a jump of the residuals.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(2)
    >>> force = ds.compile(arm, (), "inverse_dynamics", gravity="input")
    >>> q, rest = arm.random(0, batch=50), np.zeros(2)
    >>> tau = force(q, rest, rest, np.array([0.0, 0.0, -1.62]))
    >>> found = ds.identify(force, {"tau": tau}, {"gravity": [0, 0, -9.81]}, q=q, v=rest, qdd=rest)
    >>> found.values["gravity"].round(6) + 0.0
    array([ 0.  ,  0.  , -1.62])
    """

    values: dict[str, Array]
    errors: dict[str, Array]
    names: tuple[str, ...]
    estimates: Array
    root: Array
    hidden: Array
    clusters: int
    residual: float
    units: int
    unsolved: int
    evaluations: int
    converged: bool

    @property
    def covariance(self) -> Array:
        """Posterior covariance (m, m) of the estimates; infinite variances of what is not determined."""
        covariance = self.root @ self.root.T
        unknown = self.hidden.any(axis=1)
        covariance[unknown, unknown] = np.inf
        return covariance

    def combination(self, A: ArrayLike) -> tuple[Array, Array]:
        """Combinations ``A @ estimates`` and their standard errors, each of the shape of ``A[..., 0]``.

        They may be determined where entries are not: ``A = base_parameters(robot).grouping`` where the inertias of all
        links are estimated.

        Parameters
        ----------
        A : (..., m) array_like

        Raises
        ------
        ConfigurationError
            Arrays of other shapes.
        """
        parts, m = real_array(A), self.estimates.size
        if parts is None or not parts.ndim or parts.shape[-1] != m:
            raise ConfigurationError("A", f"shape (..., {m})", shown(A), "One number for each of the estimates.")
        unknown = np.sum((parts @ self.hidden) ** 2, axis=-1) > RANK * (parts**2 @ np.sum(self.hidden**2, axis=1))
        return parts @ self.estimates, np.where(unknown, np.inf, np.linalg.norm(parts @ self.root, axis=-1))

    def __str__(self) -> str:
        """Table of estimates, and what they are from."""
        spread, width = np.sqrt(np.diagonal(self.covariance)), max(map(len, self.names))
        said = ["not determined" if np.isinf(error) else f"± {error:.2g}" for error in spread]
        rows = zip(self.names, self.estimates, said, strict=True)
        lines = [f"{name:{width}}  {x:12.6g} {error}" for name, x, error in rows]
        how = "converged" if self.converged else "not converged"
        lines.append(f"{how} after {self.evaluations} evaluations of {self.units} units, {self.unsolved} not solved")
        of = f"{self.clusters} trajectories" if self.clusters else "independent residuals"
        lines.append(f"residuals: {self.residual:.3g} of the scale; errors by {of}")
        return "\n".join(lines)


class _Parameter:
    """Coordinates of an argument: its entries, those of a smaller array, or a body's pseudo-inertia over its first one.

    Entries are ``changes`` (k, m) of coordinates (k,), less ``offset``.
    """

    def __init__(self, kernel: Kernel, name: str, start: ArrayLike, prior: ArrayLike) -> None:
        (self.shape,) = (a.shape for a in kernel.arguments if a.name == name)
        own = payloads_of(kernel).get(name)
        self.name, self.is_body, self.offset = name, own is not None, 0.0 if own is None else own
        given = real_array(start)
        try:
            if given is None or not np.isfinite(given).all():
                raise ValueError
            np.broadcast_to(given, self.shape)
            self.own, self.given = given.shape, given.ravel()
            self.start, self.changes = self.given, np.eye(given.size)
            if self.is_body:
                self.start, self.changes = body_coordinates(given + self.offset)
        except (ValueError, np.linalg.LinAlgError) as error:
            wanted = "a payload with which its link is a body, an array" if self.is_body else "an array"
            wanted += f" that broadcasts to {self.shape}"
            raise ConfigurationError(f"start of {name}", wanted, shown(start), "The search starts there.") from error
        self.prior = deviations(f"prior of {name}", prior, self.own).ravel()

    @property
    def names(self) -> list[str]:
        """Of its own entries."""
        return [self.name + "".join(f"[{k}]" for k in index) for index in np.ndindex(self.own)]

    def entries(self, x: Array) -> Array:
        """Own entries (m,) at coordinates (k,)."""
        return np.asarray(x @ self.changes - self.offset)

    def argument(self, x: Array) -> Array:
        """The argument at coordinates (k,)."""
        return np.broadcast_to(self.entries(x).reshape(self.own), self.shape)

    def moved(self) -> Array:
        """Derivatives (k, …) of the argument."""
        lead = (1,) * (len(self.shape) - len(self.own))
        return np.broadcast_to(self.changes.reshape(-1, *lead, *self.own), (len(self.changes), *self.shape))


def _columns(parameters: Sequence[_Parameter]) -> list[slice]:
    """Coordinates of each parameter among those of all."""
    return [slice(a, b) for a, b in pairwise(accumulate((p.start.size for p in parameters), initial=0))]


def payloads_of(kernel: Kernel) -> dict[str, Array]:
    """Ten parameters of the link that each payload is on, in the payload's frame, by names of arguments."""
    tree, out = kernel.request.tree, dict[str, Array]()
    for argument in kernel.arguments:
        if argument.keyword == "payloads":
            at = tree.placement(kernel.request.payloads[len(out)])
            out[argument.name] = parameters_in_frame(tree.inertias[at.link], at.rotation, at.position)
    return out


class _LeastSquares:
    """Residuals and their Jacobian, as `least_squares` asks for them; starts are eliminated.

    Attributes
    ----------
    solved : (n,) array
        Which units were solved where derivatives were computed last, and these, too.
    free : int
        Directions of starts that were eliminated there.
    """

    def __init__(self, data: Measured, parameters: Sequence[_Parameter], tree: Tree, is_robust: bool) -> None:
        self.data, self.parameters, self.tree, self.is_robust = data, parameters, tree, is_robust
        self.columns = _columns(parameters)
        self.solved, self.free, self._part = np.ones(data.size, dtype=bool), 0, np.ones(data.size)
        self._right = self.solved
        self._held: Array | None = None
        self._reference: tuple[Array, Starts, Array, Array] | None = None

    def each(self, x: Array) -> list[tuple[_Parameter, slice, Array]]:
        """Parameters, their columns, and their coordinates."""
        return [(p, at, x[at]) for p, at in zip(self.parameters, self.columns, strict=True)]

    def residuals(self, x: Array) -> Array:
        """Of all units, each from the start that suits it best, and of what is known beforehand."""
        values = {p.name: p.argument(part) for p, _, part in self.each(x)}
        if self._reference is None:
            starts = self.data.starts
            results, r, solved = self._run(values, starts)
        else:
            at, starts, step, turn = self._reference
            results, r, solved = self._run(values, starts)
            change = self._part[:, None] * step - turn @ (x - at)
            nv = self.tree.nv
            moved = self.tree.integrate(starts[0], change[:, :nv]), starts[1] + change[:, nv:]
            others, r_others, solved_others = self._run(values, moved)
            costs = [np.sum(self._robust(x)[0] ** 2, axis=1) for x in (r_others, r)]
            better = solved_others & (~solved | (costs[0] < costs[1]))
            self._part = np.where(better, np.minimum(1.0, 2.0 * self._part), 0.5 * self._part)
            column = better[:, None]
            starts = np.where(column, moved[0], starts[0]), np.where(column, moved[1], starts[1])
            results = [np.where(column, new, old) for new, old in zip(others, results, strict=True)]
            r, solved = np.where(column, r_others, r), solved | better
        self._latest = x.copy(), starts, results, r, solved
        known = [(p.entries(part) - p.given) / p.prior for p, _, part in self.each(x)]
        return np.concatenate([self._robust(r)[0].ravel(), *known])

    def jacobian(self, x: Array) -> Array:
        """Derivatives of the residuals at ``x``, where they were computed last."""
        _, starts, results, r, solved = self._latest
        values, changes, known = {}, {}, []
        for p, columns, part in self.each(x):
            values[p.name], changes[p.name] = p.argument(part), np.zeros((x.size, *p.shape))
            changes[p.name][columns] = p.moved()
            known.append(np.zeros((p.prior.size, x.size)))
            known[-1][:, columns] = (p.changes / p.prior).T
        J, S, right = self.data.tangents(values, changes, results)
        self.solved, self._right = solved & right, right | ~solved
        f, slope = self._robust(r)
        weight = (slope * self.solved[:, None])[..., None]
        J, S = weight * J, weight * S
        if starts is not None:
            inverse = np.linalg.pinv(S, rcond=SMALLEST)
            turn = inverse @ J
            self.free = round(float(np.einsum("nim,nmi->", inverse, S)))
            self._reference = x.copy(), starts, -np.einsum("nim,nm->ni", inverse, f), turn
            J = J - S @ turn
        self._held = r
        return np.concatenate([J.reshape(-1, x.size), *known])

    def counted(self) -> Mask:
        """Which of the residuals there are."""
        units = (self.data.known & self.solved[:, None]).ravel()
        return np.concatenate([units, *(np.isfinite(p.prior) for p in self.parameters)])

    def _run(self, values: Values, starts: Starts | None) -> tuple[list[Array], Array, Mask]:
        results, r, solved = self.data.run(values, starts)
        if self._held is not None:
            # no step gains by what it does not solve, or loses by what it has no derivatives of
            r = np.where((solved & self._right)[:, None], r, self._held)
        return results, r, solved

    def _robust(self, r: Array) -> tuple[Array, Array]:
        """Numbers whose squares are Huber's function of ``r``, and their derivatives by it."""
        size = np.abs(r)
        if not self.is_robust or not (far := size > HUBER).any():
            return r, np.ones(r.shape)
        f = np.sqrt(np.where(far, HUBER * (2.0 * size - HUBER), size * size))
        return np.sign(r) * f, np.where(far, HUBER / np.where(far, f, 1.0), 1.0)


def identify(
    kernel: Kernel,
    measured: Mapping[str, ArrayLike],
    start: Mapping[str, ArrayLike],
    *,
    scale: ArrayLike | Mapping[str, ArrayLike] = 1.0,
    bounds: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    prior: Mapping[str, ArrayLike] | None = None,
    loss: Literal["linear", "huber"] = "linear",
    every: int = 1,
    window: int | None = None,
    starts: Literal["measured", "estimated"] = "measured",
    **inputs: ArrayLike,
) -> Identification:
    """Estimate arguments of a kernel from measurements, by least squares; of a time step, over trajectories.

    Derivatives are those of compiled kernels, along trajectories those of steps one after the other: of contact steps
    by "contact_step_derivatives", of all else by ``kernel.derivative("jvp")``. At an impact trajectories have a kink,
    and where impacts change their order a jump, at which derivatives say nothing about what is on the other side: with
    ``window`` trajectories are cut into stretches that are short enough to hold one bounce or so, each from a start of
    its own, over which sums of squares are smooth. Without, a search over what bounces, from measured starts, begins
    with stretches from each measurement to the next.

    Parameters
    ----------
    kernel : Kernel
        Compiled "contact_step" or "step", or any other kernel that can be differentiated.
    measured : dict of array_like
        Of a time step: ``"q"`` (N + 1, nq) or (N + 1, n, nq), configurations of one or of n trajectories, time first,
        and if they are known ``"v"`` (N + 1, ..., nv), velocities in m/s and rad/s. Of other kernels: results by their
        names, each (..., shape of one state). NaN is what was not measured.
    start : dict of array_like
        Where the search starts, by names of arguments such as ``"friction"``, ``"restitution"``, ``"kp"``,
        ``"payload0"``: arrays that broadcast to the argument's shape, such as one number for all contacts. Of a payload
        (10,) the inertia of its link together with it is estimated, as one that a body can have; zeros start at the
        link's own, and what the measurements do not determine stays as near to that as it can.
    scale : array_like or dict of array_like
        Standard deviation of what was measured, by its names or one for all: of ``"q"`` (nv,) in m and rad, along
        `Tree.difference`; infinite of what says where windows start and no more.
    bounds : dict, optional
        Least and largest value of those that are no payloads.
    prior : dict, optional
        Standard deviations of ``start``, where that is known from elsewhere: of a mass that was weighed, say;
        infinite if not given.
    loss : {"linear", "huber"}
        Squares of residuals, or squares that grow linearly beyond 1.345 times the scale.
    every : int
        Steps between two measurements, of a time step.
    window : int, optional
        Measurements in each window, of a time step; each belongs to one. By default a trajectory is one window.
    starts : {"measured", "estimated"}
        Whether states at which windows start are taken as measured, velocities too, or estimated, with their
        measurements among the residuals. Estimated starts suit what touches nothing, or does not bounce.
    **inputs : array_like
        All other arguments of the kernel; of a time step as in `rollout`: ``controls`` (N · every, nv) or
        (N · every, n, nv), ``dt`` and what has no default, (shape of one state) or (n, shape of one state).

    Returns
    -------
    Identification
        Estimates, their covariance, and how they were found. A warning counts the units that were not solved: their
        residuals stay as they were at the last estimate at which they were, and have no derivative.

    Raises
    ------
    ConfigurationError, UnknownNameError
        Arrays of other shapes, arguments that the kernel has not, a start that is outside the bounds.

    References
    ----------
    Lee, Wensing and Park, "Geometric robot dynamic identification: a convex programming approach", T-RO 2020; Bock,
    "Recent advances in parameter identification techniques for ODE", 1983 (multiple shooting).

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> ball = ds.mechanisms.free_body(1.0, 0.004 * np.eye(3), name="ball")
    >>> contact = ds.Contact("ball", ds.contact.Sphere(0.1))
    >>> step = ds.compile(ball, contact, "contact_step", friction="input", tolerance=1e-8)
    >>> q0, v0, none = [0, 0, 0.1, 0, 0, 0, 1.0], [1.0, 0, 0, 0, 0, 0], np.zeros((100, 6))
    >>> q, v = ds.rollout(step, q0, v0, none, 1e-3, friction=[0.3])[:2]
    >>> found = ds.identify(step, {"q": q, "v": v}, {"friction": 0.1}, controls=none, dt=1e-3)
    >>> found.values["friction"].round(5).tolist()
    [0.3]
    """
    check_choice("loss", loss, ("linear", "huber"), ConfigurationError)
    check_choice("starts", starts, ("estimated", "measured"), ConfigurationError)
    check_whole("every", every, "Steps between two measurements.", least=1, most=MOST)
    if window is not None:
        check_whole("window", window, "Measurements in each window.", least=2, most=MOST)
    if not isinstance(kernel, Kernel):
        raise ConfigurationError("kernel", "a compiled kernel", shown(kernel), "Make one with compile.")
    bounds = {} if bounds is None else bounds
    prior = {} if prior is None else prior
    for name, given in (("measured", measured), ("start", start), ("bounds", bounds), ("prior", prior)):
        if not isinstance(given, Mapping) or (not given and name in ("measured", "start")):
            raise ConfigurationError(name, "a dict of arrays", shown(given), "Arrays by names of arguments or results.")
    parameters = _parameters(kernel, start, prior)
    is_step = bool(kernel.request.states)
    cut = partial(Windows, kernel, measured, scale, inputs, every)
    data: Measured = cut(window, starts == "estimated") if is_step else Samples(kernel, measured, scale, inputs)
    low, high = _limits(parameters, bounds)
    begin = np.concatenate([p.start for p in parameters])
    of = _LeastSquares(data, parameters, kernel.request.tree, loss == "huber")
    bodies = [np.arange(at.start, at.stop) for p, at in zip(parameters, of.columns, strict=True) if p.is_body]
    domain = Domain(np.array(bodies, dtype=np.intp).reshape(-1, 10), low, high)
    if is_step and window is None and starts == "measured" and kernel.request.bounces:
        begin = _within_bounces(of, cut, begin, domain)
    return _identified(of, _fitted(of, begin, domain))


def _fitted(of: _LeastSquares, begin: Array, domain: Domain) -> Minimum:
    left = max(1, int(np.count_nonzero(of.counted())) - begin.size)
    return least_squares(of.residuals, of.jacobian, begin, domain, lambda f: float(f @ f) / left)


def _within_bounces(of: _LeastSquares, cut: Callable[[int, bool], Windows], begin: Array, domain: Domain) -> Array:
    """Where a search over trajectories that bounce begins: what suits stretches from each measurement to the next.

    Velocities of a trajectory whose bounces are at other times are those of another flight at some measurements, where
    derivatives lead away. The given one where that suits all better, or where no two measurements follow each other.
    """
    try:
        short = _LeastSquares(cut(2, False), of.parameters, of.tree, of.is_robust)
    except ConfigurationError:
        return begin
    found = _fitted(short, begin, domain).x
    before, after = (float(np.sum(of.residuals(x) ** 2)) for x in (begin, found))
    return found if after < before else begin


def _parameters(kernel: Kernel, start: Mapping[str, ArrayLike], prior: Mapping[str, ArrayLike]) -> list[_Parameter]:
    names = [a.name for a in kernel.arguments[kernel.request.states :]]
    if kernel.request.states:
        names = [name for name in names if name not in ("dt", kernel.request.control)]
    for name in (*start, *prior):
        if name not in names or name not in start:
            raise unknown_name("argument to identify", name, names if name in start else start)
    return [_Parameter(kernel, name, x, prior.get(name, np.inf)) for name, x in start.items()]


def _limits(parameters: Sequence[_Parameter], bounds: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> tuple[Array, Array]:
    """Least and largest coordinates."""
    free = [p.name for p in parameters if not p.is_body]
    for name in bounds:
        if name not in free:
            raise unknown_name("parameter with bounds", name, free)
    low, high = (np.concatenate([np.full(p.start.size, x) for p in parameters]) for x in (-np.inf, np.inf))
    for p, columns in zip(parameters, _columns(parameters), strict=True):
        if p.name in bounds:
            given = bounds[p.name]
            pair = [real_array(x) for x in given] if isinstance(given, tuple | list) and len(given) == 2 else [None]
            try:
                low[columns], high[columns] = (np.broadcast_to(x, p.own).ravel() for x in pair if x is not None)
            except ValueError as error:
                wanted = f"two arrays that broadcast to {p.own}"
                raise ConfigurationError(f"bounds of {p.name}", wanted, shown(given), "Least and largest.") from error
    begin = np.concatenate([p.start for p in parameters])
    if not ((low < high) & (low <= begin) & (begin <= high)).all():
        raise ConfigurationError("start", "within its bounds", shown(begin), "Pass bounds={name: (least, largest)}.")
    return low, high


def _identified(of: _LeastSquares, found: Minimum) -> Identification:
    """Estimates with their covariance, from the last residuals and Jacobian."""
    J, f = found.jacobian, found.residuals
    norms: Array = np.linalg.norm(J, axis=0)
    norms[norms == 0.0] = 1.0
    _, sizes, V = np.linalg.svd(np.asarray(np.linalg.qr(J / norms, mode="r")), full_matrices=True)
    some = np.zeros(len(V), dtype=bool)
    some[: sizes.size] = sizes > RANK * max(1.0, sizes[0])
    misses = f[of.counted()]
    left = misses.size - of.free - int(np.count_nonzero(some))
    sigma = float(np.sqrt(misses @ misses / max(1, left)))
    root = (V[some] / sizes[: some.sum(), None] / norms).T
    shape, rows = of.data.known.shape, of.data.known.size
    acting = of.solved & of.data.known.any(axis=1)
    own, misses = (J[:rows] @ root).reshape(*shape, root.shape[1])[acting], f[:rows].reshape(shape)[acting]
    square = np.abs(misses) <= HUBER if of.is_robust else np.ones(misses.shape, dtype=bool)
    spread_of, clusters = clustered(own, misses, square, of.data.clusters[acting], J[rows:] @ root)
    root = root @ (spread_of if clusters else sigma * np.eye(root.shape[1]))
    values, errors, turn = dict[str, Array](), dict[str, Array](), np.zeros((found.x.size, 0))
    for p, columns, part in of.each(found.x):
        values[p.name] = read_only(p.argument(part))
        change = np.zeros((found.x.size, p.changes.shape[1]))
        change[columns] = p.changes
        turn = np.concatenate([turn, change], axis=1)
    estimates = np.concatenate([p.entries(part) for p, _, part in of.each(found.x)])
    turn, root = turn.T, turn.T @ root
    hidden = turn @ (V[~some] / norms).T
    hidden[np.sum(hidden**2, axis=1) <= RANK * np.sum((turn / norms) ** 2, axis=1)] = 0.0
    error = np.where(hidden.any(axis=1), np.inf, np.linalg.norm(root, axis=1))
    spread = np.split(error, np.cumsum([p.given.size for p in of.parameters])[:-1])
    for p, x in zip(of.parameters, spread, strict=True):
        errors[p.name] = read_only(x.reshape(p.own))
    names = tuple(name for p in of.parameters for name in p.names)
    unsolved = int(np.count_nonzero(~of.solved))
    if unsolved:
        warn(f"{unsolved} of {of.data.size} unit(s) are not solved at the estimate and take no part in it. "
             "Compile with more sweeps, or take a shorter time step.")  # fmt: skip
    return Identification(
        values, errors, names, read_only(estimates), read_only(root), read_only(hidden), clusters, sigma,
        of.data.size, unsolved, found.evaluations, found.converged,
    )  # fmt: skip
