"""Constraints on the velocities of joints: couplings, mimic joints, fixed tendons.

Rows measure ``Σ C v``, ask for ``Σ C q̈``, and exert no wrenches; ``C`` is constant, and nothing drifts. Their position
errors are ``Σ C q − rest``, where the position of each joint is one number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints.constraint import MOST_ROWS, At, Constraint, ConstraintRates, Rates, exact
from delassus.errors import ConstraintError, shown, unknown_name
from delassus.frozen import Parts
from delassus.model.check import check_list, check_prefix, real_array
from delassus.model.tree import WORLD, Tree
from delassus.spatial.motion import LINEAR
from delassus.spatial.ops import Matrix, Scalar
from delassus.spatial.rotations import Array

Row = Mapping[str, ArrayLike]


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
        Value of the same combination of joint positions (rad, m) that stabilisation goes to. Rows that meet joints
        whose position is not one number (ball, free and others) have no position error: only velocities are stabilised.

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

    def measured(self, tree: Tree) -> Array:
        """1 for each row (m,) whose joints all have positions of one number, else 0."""
        met = ((tree.joints[tree.joint_names.index(name)] for name in row) for row in self.rows)
        return np.array([float(all(joint.nq == 1 for joint in joints)) for joints in met])

    def position_coefficients(self, tree: Tree) -> dict[int, Array]:
        """Coefficients (m, 1) by joint of joint positions in the position errors of the rows."""
        own = self.measured(tree)[:, None]
        return {i: own * C for i, C in self.coefficients(tree).items() if tree.joints[i].nq == 1}

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
        """``Σ C q − rest`` of rows whose joints all have positions of one number; zero of others."""
        ops, tree = at.ops, at.tree
        e = ops.constant(-(self.measured(tree) * self.rest)[:, None])
        for i, C in self.position_coefficients(tree).items():
            e = e + ops.constant(C) @ ops.matrix([[at.robot.coordinate(tree.q_slices[i].start)]])
        return e

    def rates(self, at: At, rates: Rates, f: Matrix, positions: bool) -> ConstraintRates:
        """Changes of Baumgarte's terms, and what `Rates` leaves out of a floating root."""
        ops, tree, goal = at.ops, at.tree, at.goal
        C, rows = self.coefficients(tree), ops.zeros(self.size, tree.nv)
        if rates.root in C:
            drift = rates.drift_q if positions else rates.drift_v
            rows = rows - ops.put(ops.constant(C[rates.root]) @ drift, (self.size, tree.nv), range(self.size), range(6))
        gain, met = (goal.position_gain, self.position_coefficients(tree)) if positions else (goal.velocity_gain, C)
        for i, coefficients in met.items() if gain is not None else ():
            weighed, at_joint = ops.matrix([[gain * x for x in row] for row in coefficients.tolist()]), tree.v_slices[i]
            columns = range(at_joint.start, at_joint.stop)
            rows = rows + ops.put(weighed, (self.size, tree.nv), range(self.size), columns)
        return ConstraintRates(rows)

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
