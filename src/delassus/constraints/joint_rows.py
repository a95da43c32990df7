"""Constraints on the velocities of joints: couplings, mimic joints, fixed tendons.

Rows measure ``Σ C v``, ask for ``Σ C q̈``, and exert no wrenches; ``C`` is constant, and nothing drifts. Their position
errors are ``Σ C q − rest``, where joints have one degree of freedom. Whole turns of cos-sin joints do not count: errors
are the least of those at any number of turns, up to half a `JointRows.periods` either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isfinite, lcm
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints.constraint import MOST_ROWS, At, Constraint, exact
from delassus.errors import ConstraintError, shown, unknown_name
from delassus.frozen import Parts
from delassus.model.check import check_list, check_prefix, real_array
from delassus.model.tree import WORLD, Tree
from delassus.spatial.joint_kinds import JointKind
from delassus.spatial.motion import LINEAR, column, from_entries
from delassus.spatial.ops import Matrix, Ops, Scalar
from delassus.spatial.rotations import Array

Row = Mapping[str, ArrayLike]

MOST_TURNS = 12
"""Turns after which cos-sin joints of a row are where they were; others of other ratios are not to turn around."""

SAME_RATIO = 1e-5
"""Relative difference up to which a ratio of turns is one of whole numbers: files write six digits."""

HOLDS = 1e-6
"""Errors (rad, m) of a row up to which it holds: files write six digits."""


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class JointRows(Constraint):
    """Rows on the velocities of joints: each row is a linear combination of them that stays as it is.

    With ``q_a = 2 q_b + 0.1``, as a mimic joint says, the row is ``{"a": 1.0, "b": -2.0}`` and its ``rest`` 0.1.

    Parameters
    ----------
    rows : mapping of str to float or (nv_j,) array_like, or sequence of such mappings
        For each row the coefficients by name of the joint: one number, or for a joint of several degrees of freedom
        one for each, in the order of its velocity.
    rest : float or (m,) array_like
        Value of the same combination of joint positions (rad, m) that stabilisation goes to. Rows that meet joints of
        several degrees of freedom (ball, free and others) have no position error: only velocities are stabilised. Rows
        on cos-sin joints hold at any number of turns of each: where one turns half as far as another, at two places.
        Where ratios are not of whole numbers up to 12, angles of all but the first are those within half a turn of
        zero, beyond which errors jump.

    Raises
    ------
    ConstraintError
        Rows that are not such mappings, coefficients that are not finite or all zero, or another number of ``rest``;
        with a robot whose joint has another number of degrees of freedom.
    UnknownNameError
        With a robot that has no such joint.

    Examples
    --------
    >>> JointRows({"finger1_joint": 1.0, "finger2_joint": -1.0}).size
    1
    >>> JointRows([{"j1": 1.0, "j2": -2.0}, {"j1": 1.0, "j3": 0.5}], rest=[0.1, 0.0]).size
    2
    """

    rows: tuple[Mapping[str, Array], ...]
    rest: Array

    def __init__(self, rows: Row | Sequence[Row], rest: ArrayLike = 0.0) -> None:
        wanted, advice = "a mapping from joints to coefficients, or a sequence of them", "Pass {'a': 1.0, 'b': -2.0}."
        listed = [rows] if isinstance(rows, Mapping) else check_list("rows", rows, wanted, advice, ConstraintError)
        checked = tuple(_checked_row(row, f"row {k} of JointRows") for k, row in enumerate(listed))
        if not 1 <= len(checked) <= MOST_ROWS:
            limit = "at least one row" if not checked else f"at most {MOST_ROWS:,} rows"
            raise ConstraintError("rows of JointRows", limit, f"{len(checked)}", advice)
        values = real_array(rest)
        if values is None or values.shape not in ((), (len(checked),)) or not np.all(np.isfinite(values)):
            found = shown(rest) if values is None or values.shape == () else f"shape {values.shape}"
            raise ConstraintError(
                "rest of JointRows", f"a finite number, or {len(checked)} of them", found, "Pass one for each row."
            )
        self._set_attributes(size=len(checked), rows=checked, rest=np.full(len(checked), values))
        self._make_read_only("rest")

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.joints[:4])) + (", …" if len(self.joints) > 4 else "")
        return f"JointRows({names}, {self.size} rows)"

    def _parts(self) -> Parts:
        """A mapping proxy does not pickle."""
        return JointRows, ([dict(row) for row in self.rows], self.rest)

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints that the rows meet, in the order of their coming."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the constraint."""
        rows = [[(name, x.tolist()) for name, x in row.items()] for row in self.rows]
        return repr([type(self).__name__, rows, self.rest.tolist()])

    def prefixed(self, prefix: str) -> JointRows:
        """These rows with a prefix on all names."""
        check_prefix(prefix)
        return JointRows([{prefix + name: x for name, x in row.items()} for row in self.rows], self.rest)

    def coefficients(self, tree: Tree) -> dict[int, Array]:
        """Coefficients (m, nv_j) by joint, those of all rows; joints in the order of the robot's."""
        met = sorted(tree.joint_names.index(name) for name in self.joints)
        out = {i: np.zeros((self.size, tree.joints[i].nv)) for i in met}
        for k, row in enumerate(self.rows):
            for name, x in row.items():
                out[tree.joint_names.index(name)][k] = x
        return out

    def periods(self, tree: Tree) -> list[float]:
        """What turns of cos-sin joints change each row by (m,): multiples of these (rad); infinite without any."""
        joints = {joint.name: joint for joint in tree.joints}
        turning = ([float(x[0]) for name, x in row.items() if joints[name].kind.turns] for row in self.rows)
        return [_period([abs(x) for x in each if x]) for each in turning]

    def measured(self, tree: Tree) -> Array:
        """1 for each row (m,) whose joints all have one degree of freedom, else 0."""
        met = ((tree.joints[tree.joint_names.index(name)] for name in row) for row in self.rows)
        return np.array([float(all(joint.nv == 1 for joint in joints)) for joints in met])

    def within_a_turn(self, tree: Tree, q: Array) -> Array:
        """Configurations (..., nq) whose rows on cos-sin joints hold for angles within half a turn of zero.

        The first joint of each such row is moved.
        """
        parts = zip(self.rows, self.rest, self.periods(tree), self.measured(tree), strict=True)
        for row, rest, period, measured in parts:
            if measured and period < np.inf:
                x, first = tree.difference(tree.neutral(), q), next(name for name in row if row[name].any())
                error = sum(c[0] * x[..., tree.v_index(name).start] for name, c in row.items()) - rest
                shift = np.zeros_like(x)
                shift[..., tree.v_index(first).start] = -error / row[first][0]
                q = tree.integrate(q, shift)
        return q

    def position_coefficients(self, tree: Tree) -> dict[int, Array]:
        """Coefficients (m, 1) by joint of joint positions in the position errors of the rows."""
        own = self.measured(tree)[:, None]
        return {i: own * C for i, C in self.coefficients(tree).items() if tree.joints[i].nv == 1}

    def is_internal(self, tree: Tree) -> bool:
        """Whether no joint has several degrees of freedom: velocities of such depend on the root."""
        return all(tree.joints[i].nv == 1 for i in self.coefficients(tree))

    def header_lines(self) -> Iterator[str]:
        """Coefficients by joint, and the rest."""
        rows = ("; ".join(f"{exact(x)} {joint}" for joint, x in row.items()) for row in self.rows)
        yield f"rows {' | '.join(rows)}, at rest {exact(self.rest)}"

    def couplings(self) -> list[tuple[dict[str, float], float]] | None:
        """Coefficients that are not zero by joint, and the rest; None if a joint has several degrees of freedom."""
        if any(x.size != 1 for row in self.rows for x in row.values()):
            return None
        rows = ({joint: float(x[0]) for joint, x in row.items() if x[0]} for row in self.rows)
        return list(zip(rows, self.rest.tolist(), strict=True))

    def without(self, tree: Tree, other: Tree, values: Mapping[str, Array]) -> JointRows | None:
        """The rows without these joints, whose part is in ``rest`` now; None if no joint is left in any.

        Rows of velocities alone are left out where those left would have positions.

        Raises
        ------
        ConstraintError
            A row on joints that all stay does not hold at ``values``.
        """
        rows, rests = list[Row](), list[float]()
        for row, rest, measured, period in zip(
            self.rows, self.rest, self.measured(tree), self.periods(tree), strict=True
        ):
            rest -= measured * sum(float(np.sum(x * values[name])) for name, x in row.items() if name in values)
            left = {name: x for name, x in row.items() if name not in values and x.any()}
            if not left and measured and period == np.inf and abs(rest) > HOLDS:
                raise ConstraintError(
                    f"row on joints {', '.join(map(repr, row))}", "values at which it holds", f"{abs(rest):g} off",
                    "Lock its joints at values that fit, or leave it out.",
                )  # fmt: skip
            if left and (measured or any(len(x) > 1 for x in left.values())):
                rows.append(left)
                rests.append(rest)
        return JointRows(rows, rests) if rows else None

    def carriers(self, tree: Tree) -> tuple[int, ...]:
        """The links that its joints carry, each followed by the link that the joint is on."""
        pairs = ((i, tree.parents[i]) for i in self.coefficients(tree))
        return tuple(link for pair in pairs for link in pair if link != WORLD)

    def row_sizes(self, at: At, length: float) -> list[Scalar]:
        """Square of the size of each row: of coefficients, those of rotations over the length."""
        parts = []
        for i, C in self.coefficients(at.tree).items():
            parts.append(C**2 / [1.0 if k in LINEAR else length**2 for k in at.tree.joints[i].motion_axes])
        return [*map(float, np.concatenate(parts, axis=1).sum(axis=1))]

    def drift(self, at: At) -> Matrix:
        """Zero: the rows are constant."""
        return at.ops.zeros(self.size, 1)

    def position(self, at: At) -> Matrix:
        """``Σ C q − rest`` of rows of joints of one degree of freedom, without whole turns; zero of others."""
        ops, tree = at.ops, at.tree
        e, turns = ops.constant(-(self.measured(tree) * self.rest)[:, None]), list[JointKind]()
        for i, C in self.position_coefficients(tree).items():
            kind, sq = tree.joints[i].kind, tree.q_slices[i]
            q = [at.robot.coordinate(k) for k in range(sq.start, sq.stop)]
            if kind.turns:
                turns.append(kind)
                q = kind.difference(ops, kind.neutral, q)
            e = e + ops.constant(C) @ ops.matrix([q])
        if not turns:
            return e
        rows = zip(column(ops, e), self.periods(tree), strict=True)
        return from_entries(ops, [_without_turns(ops, turns[0], x, period) for x, period in rows])

    def check(self, tree: Tree) -> None:
        """Refuse a robot that it does not fit: raises `UnknownNameError` or `ConstraintError`."""
        for row in self.rows:
            for name, x in row.items():
                if name not in tree.joint_names:
                    raise unknown_name("joint of JointRows", name, tree.joint_names)
                if (nv := tree.joints[tree.joint_names.index(name)].nv) != len(x):
                    raise ConstraintError(
                        f"coefficients of joint {name!r}", f"{nv}, one for each degree of freedom", f"{len(x)}",
                        "Pass them in the order of the joint's velocity.",
                    )  # fmt: skip


def _period(coefficients: Sequence[float]) -> float:
    """Largest number (rad) that whole turns (2π) by each of these are multiples of; those of the first if none is."""
    if not coefficients:
        return np.inf
    largest = max(coefficients)
    ratios = [Fraction(x / largest).limit_denominator(MOST_TURNS) for x in coefficients]
    over = lcm(*(x.denominator for x in ratios))
    errors = [abs(x - y * largest) / x for x, y in zip(coefficients, ratios, strict=True)]
    if over > MOST_TURNS or max(errors) > SAME_RATIO:
        return float(2.0 * np.pi * coefficients[0])
    return float(2.0 * np.pi * largest * gcd(*(int(x * over) for x in ratios)) / over)


def _without_turns(ops: Ops, kind: JointKind, x: Scalar, period: float) -> Scalar:
    """What is left of a number by whole periods, at most half of one either way."""
    if period == np.inf:
        return x
    turn = kind.moved(ops, kind.neutral, [2.0 * np.pi / period * x])
    return period / (2.0 * np.pi) * kind.difference(ops, kind.neutral, turn)[0]


def _checked_row(row: object, argument: str) -> Mapping[str, Array]:
    if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
        raise ConstraintError(
            argument, "a mapping from names of joints to coefficients", shown(row), "Pass {'a': 1.0, 'b': -2.0}."
        )
    out = {}
    for name, given in row.items():
        x = real_array(given)
        if x is None or x.ndim > 1 or not x.size or not np.all(np.isfinite(x)):
            raise ConstraintError(
                f"coefficients of joint {shown(name)} in {argument}", "finite numbers, one a degree of freedom",
                shown(given), "Pass {'a': 1.0, 'b': -2.0}.",
            )  # fmt: skip
        out[name] = np.atleast_1d(x)
        out[name].setflags(write=False)
    if not any(x.any() for x in out.values()):
        raise ConstraintError(argument, "a coefficient that is not zero", shown(row), "Leave this row out.")
    return MappingProxyType(out)


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class BoundedJoint(JointRows):
    """The velocity of one degree of freedom, with its limits and its dry friction; one row of a contact step.

    Attributes
    ----------
    dof : int
        Index of the degree of freedom.
    lower, upper : float
        Limits of its position (rad, m); infinite where there are none.
    friction : float
        Largest force of dry friction (N·m, N).
    """

    dof: int
    lower: float
    upper: float
    friction: float

    def __init__(self, joint: str, axis: ArrayLike, dof: int, lower: float, upper: float, friction: float) -> None:
        JointRows.__init__(self, {joint: axis})
        self._set_attributes(dof=dof, lower=lower, upper=upper, friction=friction)

    def __repr__(self) -> str:
        return f"BoundedJoint({self.joints[0]!r}, {self.lower:g}, {self.upper:g}, {self.friction:g})"

    def _parts(self) -> Parts:
        ((joint, axis),) = self.rows[0].items()
        return BoundedJoint, (joint, axis, self.dof, self.lower, self.upper, self.friction)

    @property
    def n_impulses(self) -> int:
        """Number of impulses: of its limits, and of its friction."""
        return self.has_limits + (self.friction > 0.0)

    @property
    def has_limits(self) -> bool:
        """Whether there is a limit on either side."""
        return bool(np.isfinite(self.lower) or np.isfinite(self.upper))

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the constraint."""
        return repr((*self.joints, self.dof, self.lower, self.upper, self.friction))


def bounded_joints_of(constraints: Iterable[Constraint]) -> list[BoundedJoint]:
    """Bounded joints among constraints."""
    return [c for c in constraints if isinstance(c, BoundedJoint)]


def bounded_joints(tree: Tree, limits: bool, friction: bool) -> tuple[BoundedJoint, ...]:
    """All degrees of freedom of a robot that have limits, or dry friction, if these are to act."""
    out = []
    for joint, sv in zip(tree.joints, tree.v_slices, strict=True):
        for k in range(joint.nv):
            # positions of joints of one coordinate per degree of freedom are what limits are for
            stops = limits and joint.nq == joint.nv
            lower, upper = (float(joint.lower[k]), float(joint.upper[k])) if stops else (-np.inf, np.inf)
            force = float(joint.friction[k]) if friction else 0.0
            if force or isfinite(lower) or isfinite(upper):
                out.append(BoundedJoint(joint.name, np.eye(joint.nv)[k], sv.start + k, lower, upper, force))
    return tuple(out)
