"""Tendons: lengths of paths through frames and of joints, that are held, follow one another, or pull.

The length is ``l = Σ ‖r_k‖ / divisor + Σ ratio q``; its row is the sum of those of its parts. A joint counts as the
twist of its link relative to that of its parent, along its axis: rows are on links alone, and change with the
configuration where lengths do. A tendon that follows another one by a polynomial ``P`` has the error
``e = l − length − P(l')``, the row ``w − P' w'`` and the drift ``d − P' d' − P'' l̇'²``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints.between_frames import rows_in
from delassus.constraints.constraint import At, Constraint, exact
from delassus.constraints.distance import Distance
from delassus.constraints.frame import Frame, as_frame
from delassus.errors import ConstraintError, shown, unknown_name
from delassus.frozen import Parts
from delassus.model.check import check_prefix, real_array
from delassus.model.kinematics import usual_inertias, world_poses
from delassus.model.tree import WORLD, Tree
from delassus.spatial.ops import Matrix, Scalar
from delassus.spatial.rotations import Array

STOP = 300.0
"""Frequency (rad/s) of the springs that limits of lengths are, critically damped, with what usually hangs on them."""

DEGREE = 8
"""Highest power of a polynomial that a tendon follows another one by."""


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Tendon(Constraint):
    """A length along frames and joints: one row that holds it, or with ``stiffness`` or ``damping`` a force along it.

    A rope over pulleys, a muscle's line, MuJoCo's spatial and fixed tendons, and couplings of joints that are not
    linear. As a force it acts where a `SpringDamper` does, implicitly in steps. Where neighbouring origins coincide
    there is no line between them, and results are NaN.

    Parameters
    ----------
    path : sequence of str, Frame or float, optional
        Frames whose origins it runs straight through, in order. A number is a pulley: it ends a branch, and lengths of
        the branch after it count divided by it.
    ratios : mapping of str to float, optional
        What positions of joints of one degree of freedom (rad, m) add to the length, by joint.
    length : float or (2,) array_like, optional
        Length (m, or rad) that stabilisation goes to, or at which the spring exerts no force. Without it a held tendon
        stabilises its velocity alone; a spring has that in a scene's start, or in the neutral configuration of a robot.
        Two lengths are limits: the spring and damper act beyond them alone, and only push back. Without stiffness
        and damping these are stiff ones, by what usually hangs on the tendon, and critically damped.
    stiffness, damping : float, optional
        ``k`` in N/m and ``d`` in N s/m, not negative: the force is ``−k e − d ė``. Without either it is held.
    follows : Tendon, optional
        Tendon whose length makes a part of what this one should be.
    polynomial : sequence of float, optional
        Factors of the first, second and further powers of that length.

    Raises
    ------
    ConstraintError
        A path or ratios that are not such, fewer than two frames in a branch, numbers that are not finite or out of
        range; with a robot, a joint of several degrees of freedom, or nothing that moves.
    UnknownNameError
        With a robot that has no such link or joint.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.pendulum(2)
    >>> rope = Tendon([ds.Frame("world", (1, 0, 0)), "rod2", ds.Frame("rod2", (0, 0, -0.5))], length=2.0)
    >>> ds.forward_dynamics(arm, [0.3, 0.2], [0, 0], [0, 0], rope).forces[0].shape
    (1,)
    >>> first, second = arm.joint_names
    >>> parabola = Tendon(ratios={first: 1.0}, length=0.1, follows=Tendon(ratios={second: 1.0}), polynomial=(0.0, 2.0))
    >>> ds.jacobian(arm, parabola, [0.0, 0.5])
    array([[ 1., -2.]])
    """

    path: tuple[Frame | float, ...]
    ratios: Mapping[str, float]
    length: float | tuple[float, float] | None
    stiffness: float | None
    damping: float | None
    follows: Tendon | None
    polynomial: tuple[float, ...]

    def __init__(
        self, path: Sequence[str | Frame | float] = (), ratios: Mapping[str, float] | None = None, *,
        length: float | ArrayLike | None = None, stiffness: float | None = None, damping: float | None = None,
        follows: Tendon | None = None, polynomial: ArrayLike = (1.0,),
    ) -> None:  # fmt: skip
        if follows is not None and not isinstance(follows, Tendon):
            raise ConstraintError("follows of a tendon", "a Tendon", shown(follows), "Leave it out for none.")
        powers = real_array(polynomial)
        if powers is None or powers.ndim != 1 or not 1 <= powers.size <= DEGREE or not np.isfinite(powers).all():
            wanted = f"one to {DEGREE} finite numbers"
            raise ConstraintError("polynomial of a tendon", wanted, shown(polynomial), "Begin with the first power.")
        self._set_attributes(
            size=1, path=_checked_path(path), ratios=MappingProxyType(_checked_ratios(ratios)), follows=follows,
            length=_length(length), stiffness=_number(stiffness, "stiffness", 0.0),
            damping=_number(damping, "damping", 0.0), polynomial=tuple(powers.tolist()),
        )  # fmt: skip
        if not self.path and not self.ratios:
            raise ConstraintError("path of a tendon", "frames or joints", "neither", "Pass a path or ratios.")

    def __repr__(self) -> str:
        ends = [x.text if isinstance(x, Frame) else f"{x:g}" for x in self.path]
        parts = [f"[{', '.join(ends)}]"] * bool(ends) + [repr(dict(self.ratios))] * bool(self.ratios)
        for name in ("stiffness", "damping"):
            if getattr(self, name) is not None:
                parts.append(f"{name}={getattr(self, name):g}")
        return f"Tendon({', '.join(parts)})"

    def _parts(self) -> Parts:
        """A mapping proxy does not pickle."""
        numbers = self.length, self.stiffness, self.damping, self.follows, self.polynomial
        return _made, (self.path, dict(self.ratios), *numbers)

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the constraint."""
        path = [x.fingerprint if isinstance(x, Frame) else x for x in self.path]
        followed = [] if self.follows is None else [self.follows.fingerprint, self.polynomial]
        return repr(["Tendon", path, dict(self.ratios), self.length, self.stiffness, self.damping, followed])

    def as_tendon(self, tree: Tree) -> Tendon:
        """Itself."""
        return self

    def prefixed(self, prefix: str) -> Tendon:
        """The tendon with a prefix on all names."""
        path = [x.prefixed(prefix) if isinstance(x, Frame) else x for x in self.path]
        ratios = {check_prefix(prefix) + joint: x for joint, x in self.ratios.items()}
        return self._with(path, ratios, None if self.follows is None else self.follows.prefixed(prefix), self.length)

    def _with(
        self, path: Any, ratios: Any, follows: Tendon | None, length: Any, polynomial: tuple[float, ...] | None = None
    ) -> Tendon:  # fmt: skip
        powers = self.polynomial if polynomial is None else polynomial
        return _made(path, ratios, length, self.stiffness, self.damping, follows, powers)

    def header_lines(self) -> Iterator[str]:
        """Ratios, length, and the polynomial of what it follows."""
        ratios = "; ".join(f"{exact(x)} {joint}" for joint, x in self.ratios.items())
        length = "" if self.length is None else f", length {exact(self.length)}"
        yield f"tendon {'path' if self.path else ratios}{length}"
        if self.follows is not None:
            yield f"follows by {exact(self.polynomial)} {self.follows!r}"

    # -- what it is on ---------------------------------------------------------------------------------------------

    @property
    def holds(self) -> bool:
        """Whether it has neither stiffness, damping nor limits: it is held, and no force."""
        return self.stiffness is None and self.damping is None and self.band is None

    @property
    def band(self) -> tuple[float, float] | None:
        """Limits of the length between which it exerts no force; None of others."""
        return self.length if isinstance(self.length, tuple) else None

    @property
    def is_loop(self) -> bool:
        """It is none of two frames alone."""
        return False

    @property
    def _each(self) -> tuple[Tendon, ...]:
        return (self,) if self.follows is None else (self, *self.follows._each)

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Frames of all paths."""
        return tuple(x for tendon in self._each for x in tendon.path if isinstance(x, Frame))

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints that it meets."""
        return tuple(dict.fromkeys(name for tendon in self._each for name in tendon.ratios))

    @property
    def segments(self) -> list[tuple[Frame, Frame, float]]:
        """Neighbouring frames of the path, and the factor of the distance between them."""
        out, before, factor = list[tuple[Frame, Frame, float]](), None, 1.0
        for x in self.path:
            if isinstance(x, Frame):
                if before is not None:
                    out.append((before, x, factor))
                before = x
            else:
                before, factor = None, 1.0 / x
        return out

    def carriers(self, tree: Tree) -> tuple[int, ...]:
        """Moving links of its frames, and those that its joints join."""
        on = [frame.carrier(tree) for frame in self.frames]
        for name in self.joints:
            i = tree.joint_names.index(name)
            on += [i, tree.parents[i]]
        return tuple(dict.fromkeys(link for link in on if link != WORLD))

    def check(self, tree: Tree) -> None:
        """Refuse a robot that it does not fit: raises `UnknownNameError` or `ConstraintError`."""
        for name in self.joints:
            if name not in tree.joint_names:
                raise unknown_name("joint of a tendon", name, tree.joint_names)
            joint = tree.joints[tree.joint_names.index(name)]
            if (joint.nq, joint.nv) != (1, 1):
                raise ConstraintError(
                    f"joint {name!r} of a tendon", "a joint of one degree of freedom and one coordinate",
                    f"a {joint.kind.name} joint", "Leave it out.",
                )  # fmt: skip
        moving = (a.carrier(tree) != b.carrier(tree) for t in self._each for a, b, _ in t.segments)
        if not self.ratios and not any(moving):
            raise ConstraintError(repr(self), "a length that changes", "frames of one rigid body", "Drop this tendon.")

    def is_internal(self, tree: Tree) -> bool:
        """Whether it is on no joint, and not on the world."""
        return not self.joints and WORLD not in [frame.carrier(tree) for frame in self.frames]

    def top(self, tree: Tree) -> int:
        """Closest common ancestor of all links: what moves it changes nothing."""
        on = [frame.carrier(tree) for frame in self.frames]
        on += [tree.parents[tree.joint_names.index(name)] for name in self.joints]
        first, *others = on
        for other in others:
            first = tree.closest_common_ancestor(first, other)
        return first

    def without(self, tree: Tree, other: Tree, values: Mapping[str, Array]) -> Tendon | None:
        """The tendon without these joints, whose part is in lengths now; None if nothing is left of it that moves."""
        own, gone = (self if self.holds else self.at_rest(tree, tree.neutral()))._reduced(values)
        if own is None or not any(x.ratios or x._moves(other) for x in own._each):
            return None
        length = tuple(x - gone for x in own.band) if own.band else own._rest - gone
        return own._with(own.path, own.ratios, own.follows, None if own.length is None else length, own.polynomial)

    def _reduced(self, values: Mapping[str, Array]) -> tuple[Tendon | None, float]:
        """The tendon without joints that stay at values, if anything is left, and by how much it is shorter."""
        gone = sum(x * float(values[name][0]) for name, x in self.ratios.items() if name in values)
        left = {name: x for name, x in self.ratios.items() if name not in values}
        follows, powers = self.follows, self.polynomial
        if follows is not None:
            follows, apart = follows._reduced(values)
            powers, constant = shifted(powers, apart)
            gone -= constant
            powers = powers if follows is not None else (1.0,)
        is_left = bool(self.path or left)
        return self._with(self.path, left, follows, self.length, powers) if is_left else None, gone

    def _moves(self, tree: Tree) -> bool:
        return any(tree.placement(a.link).link != tree.placement(b.link).link for a, b, _ in self.segments)

    # -- length, row and drift -------------------------------------------------------------------------------------

    def _lines(self, at: At) -> Iterator[tuple[float, Distance, At | float]]:
        """Factor of each segment, its distance, and what that is computed from; of one body, its number."""
        for a, b, factor in self.segments:
            line = Distance(a, b)
            first, second = a.carrier(at.tree), b.carrier(at.tree)
            if first == second:
                yield factor, line, float(np.linalg.norm(a.on(at.tree).position - b.on(at.tree).position))
            else:
                yield factor, line, at.part(line)

    def value(self, at: At) -> Scalar:
        """``l``."""
        total: Scalar = 0.0
        for factor, line, own in self._lines(at):
            total = total + factor * (line.line(own)[1] if isinstance(own, At) else own)
        for name, ratio in self.ratios.items():
            total = total + ratio * at.position_of(at.tree.joint_names.index(name))
        return total

    def _rows(self, at: At) -> dict[int, Matrix]:
        """``w`` (1 × 6) by link."""
        ops, out = at.ops, dict[int, Matrix]()

        def add(factor: float, link: int, row: Matrix) -> None:
            scaled = ops.matrix([[factor * x for x in ops.entries(row)[0]]])
            out[link] = out[link] + scaled if link in out else scaled

        for factor, _, own in self._lines(at):
            for link, row in own.rows_on_links.items() if isinstance(own, At) else ():
                add(factor, link, row)
        for name, ratio in self.ratios.items():
            i = at.tree.joint_names.index(name)
            p, row = at.tree.parents[i], at.row_of_joint(i)
            add(ratio, i, row)
            if p != WORLD:
                add(-ratio, p, rows_in(ops, row, *at.robot.pose_between(i, p)))
        return out

    def _speed(self, at: At) -> Scalar:
        """``l̇``, of what another tendon follows."""
        e = at.ops.zeros(1, 1)
        for link, row in self.rows_on_links(at).items():
            e = e + row @ at.motion.V[link]
        ((speed,),) = at.ops.entries(e)
        return speed

    def _slopes(self, at: At) -> tuple[Scalar, Scalar, Scalar]:
        """``P``, ``P'`` and ``P''`` at the length that it follows."""
        assert self.follows is not None
        x = self.follows.error(at)
        number: Scalar = 0.0
        slope: Scalar = 0.0
        twice: Scalar = 0.0
        for factor in reversed((0.0, *self.polynomial)):  # Horner's scheme
            twice = twice * x + 2.0 * slope
            slope = slope * x + number
            number = number * x + factor
        return number, slope, twice

    def error(self, at: At) -> Scalar:
        """``l − length − P(l')``; how far that is beyond limits."""
        e, ops = self.value(at), at.ops
        e = e if self.follows is None else e - self._slopes(at)[0]
        if self.band is None:
            return e - self._rest
        lower, upper = self.band
        above = ops.maximum(e - upper, 0.0) if upper < np.inf else 0.0
        return above - ops.maximum(lower - e, 0.0) if lower > -np.inf else above

    @property
    def _rest(self) -> float:
        """Length without limits; zero if there is none."""
        return 0.0 if self.length is None or isinstance(self.length, tuple) else self.length

    def rows_on_links(self, at: At) -> dict[int, Matrix]:
        """``w − P' w'`` by link."""
        out, ops = self._rows(at), at.ops
        if self.follows is not None:
            slope = self._slopes(at)[1]
            for link, row in self.follows.rows_on_links(at).items():
                own = ops.matrix([[slope * x for x in ops.entries(row)[0]]])
                out[link] = out[link] - own if link in out else -own
        return out

    def row_sizes(self, at: At, length: float) -> list[Scalar]:
        """Square of the size of the row: 1 of each segment and slide, those of rotations over the length."""
        total = 0.0
        for tendon in self._each:
            total += sum(factor * factor for *_, factor in tendon.segments)
            for name, ratio in tendon.ratios.items():
                axis = at.tree.joints[at.tree.joint_names.index(name)].motion_axes[0]
                total += ratio * ratio / (1.0 if axis < 3 else length**2)
        return [total]

    def drift(self, at: At) -> Matrix:
        """``d − P' d' − P'' l̇'²``."""
        ops, out = at.ops, at.ops.zeros(1, 1)
        for factor, line, own in self._lines(at):
            if isinstance(own, At):
                ((d,),) = ops.entries(line.drift(own))
                out = out + ops.matrix([[factor * d]])
        if self.follows is not None:
            _, slope, twice = self._slopes(at)
            ((d,),), speed = ops.entries(self.follows.drift(at)), self.follows._speed(at)
            out = out - ops.matrix([[slope * d + twice * (speed * speed)]])
        return out

    def position(self, at: At) -> Matrix:
        """``l − length − P(l')``; zero of a held one without a length."""
        if self.length is None and self.holds:
            return at.ops.zeros(1, 1)
        own = self if self.holds else self.at_rest(at.tree, at.tree.neutral())
        return at.ops.matrix([[own.error(at)]])

    # -- as a force ------------------------------------------------------------------------------------------------

    def springs(self, tree: Tree) -> list[tuple[float, float, float]]:
        """Stiffness, damping and usual mobility along the row."""
        mobility = self._mobility(tree)
        if self.stiffness is None and self.damping is None and self.band is not None and mobility > 0.0:
            return [(STOP * STOP / mobility, 2.0 * STOP / mobility, mobility)]
        return [(self.stiffness or 0.0, self.damping or 0.0, mobility)]

    def _mobility(self, tree: Tree) -> float:
        """As if each end of a segment carried what hangs on it and no more, and joints what they usually move."""
        total = 0.0
        for tendon in self._each:
            for a, b, factor in tendon.segments:
                for link in {a.carrier(tree), b.carrier(tree)} - {WORLD}:
                    mass = sum(float(tree.inertias[i][0, 0]) for i in range(tree.n_links) if link in tree.support(i))
                    total += factor * factor / mass if mass > 0.0 else 0.0
            usual = usual_inertias(tree) if tendon.ratios else np.zeros(0)
            for name, ratio in tendon.ratios.items():
                inertia = float(usual[tree.v_index(name).start])
                total += ratio * ratio / inertia if inertia > 0.0 else 0.0
        return total

    def at_rest(self, tree: Tree, q: Array) -> Tendon:
        """The spring with a length, that at the configuration ``q`` (nq,) if it has none."""
        if self.length is not None:
            return self
        return self._with(self.path, self.ratios, self.follows, self.error_at(tree, q))

    def error_at(self, tree: Tree, q: Array) -> float:
        """``l − length − P(l')`` at a configuration (nq,)."""
        poses, total = world_poses(tree, np.asarray(q, float)), -self._rest

        def place(frame: Frame) -> Array:
            at = frame.on(tree)
            R, p = poses[at.link] if at.link != WORLD else (np.eye(3), np.zeros(3))
            return np.asarray(p + R @ at.position)

        for a, b, factor in self.segments:
            total += factor * float(np.linalg.norm(place(a) - place(b)))
        total += sum(ratio * float(q[tree.q_index(name).start]) for name, ratio in self.ratios.items())
        if self.follows is not None:
            total -= float(np.polyval([*reversed(self.polynomial), 0.0], self.follows.error_at(tree, q)))
        return total if self.band is None else total - float(np.clip(total, *self.band))

    def energy(self, tree: Tree, q: Array) -> float:
        """Energy (J) of the spring at a configuration (nq,)."""
        return 0.5 * self.springs(tree)[0][0] * self.at_rest(tree, tree.neutral()).error_at(tree, q) ** 2


def shifted(polynomial: Sequence[float], x: float) -> tuple[tuple[float, ...], float]:
    """Factors of powers of ``y`` from the first on, and the constant, of the polynomial at ``y + x``."""
    moved: Any = np.polynomial.Polynomial([0.0, *polynomial])(np.polynomial.Polynomial([x, 1.0]))
    constant, *powers = map(float, moved.coef)
    return (*powers, *[0.0] * (len(polynomial) - len(powers))), constant


def _made(
    path: Any, ratios: Any, length: Any, stiffness: float | None, damping: float | None,
    follows: Tendon | None, polynomial: Any,
) -> Tendon:  # fmt: skip
    return Tendon(
        path, ratios, length=length, stiffness=stiffness, damping=damping, follows=follows, polynomial=polynomial
    )


def _length(given: object) -> float | tuple[float, float] | None:
    """A number, or limits of which one may be infinite."""
    pair = real_array(given)
    if given is None or pair is None or pair.shape != (2,):
        return _number(given, "length")
    lower, upper = (float(x) for x in pair)
    if not (lower < upper and np.isfinite(pair).any()):
        wanted = "the lower limit first, and not both infinite"
        raise ConstraintError("length of a tendon", wanted, shown(given), "Pass (0.1, 0.4).")
    return lower, upper


def _number(given: object, name: str, least: float = -np.inf) -> float | None:
    if given is None:
        return None
    number = real_array(given)
    if number is None or number.shape != () or not (least <= number < np.inf) or number == -np.inf:
        wanted = "a finite number" + (", not negative" if least == 0.0 else "")
        raise ConstraintError(f"{name} of a tendon", wanted, shown(given), "Leave it out for none.")
    return float(number)


def _checked_path(given: object) -> tuple[Frame | float, ...]:
    advice = "Pass ['base', 'hand'], or ['base', 'hand', 2.0, 'foot', 'base'] with a pulley."
    if isinstance(given, (str, Frame, Mapping)) or not isinstance(given, Sequence):
        raise ConstraintError("path of a tendon", "a sequence of frames and divisors", shown(given), advice)
    out, branch = list[Frame | float](), 0
    for x in given:
        if isinstance(x, (str, Frame)):
            frame = as_frame(x, "frame of a tendon")
            if frame.given:
                raise ConstraintError("frame of a tendon", "a fixed placement", repr(frame), "Give it a position here.")
            out.append(frame)
            branch += 1
            continue
        number = real_array(x)
        if number is None or number.shape != () or not 0.0 < number < np.inf:
            raise ConstraintError("pulley of a tendon", "a number above zero, or a frame", shown(x), advice)
        if branch == 1:
            raise ConstraintError("path of a tendon", "two frames or more in each branch", "one", advice)
        out.append(float(number))
        branch = 0
    if out and branch < 2:
        raise ConstraintError("path of a tendon", "two frames or more in each branch", f"{branch}", advice)
    return tuple(out)


def _checked_ratios(given: object) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        wanted = "a mapping from names of joints to numbers"
        raise ConstraintError("ratios of a tendon", wanted, shown(given), "Pass {'a': 1.0, 'b': -2.0}.")
    return {name: x for name, y in given.items() if (x := _number(y, f"ratio of joint {name!r}") or 0.0)}
