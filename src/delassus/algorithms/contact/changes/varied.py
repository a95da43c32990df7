"""Momentum, rows and impulses of a step at arguments of the call that are numbers with their rates."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, cast

from delassus.algorithms.contact.changes.response import ModeResponse
from delassus.algorithms.contact.modes import Mode
from delassus.algorithms.contact.solution import StepInputs, patches_of, points_of
from delassus.algorithms.contact.step import KernelStep
from delassus.algorithms.dynamics.constraint_acceleration import position_errors
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.problem import Problem
from delassus.algorithms.rnea import momentum
from delassus.spatial.dual_ops import Dual, DualOps, rates_of, value
from delassus.spatial.motion import column, from_entries, minus, plus
from delassus.spatial.ops import Matrix, Scalar


class Varied:
    """A step at arguments of the call that are numbers with their rates (`DualOps`), its state being held.

    ``problem`` is at these arguments; rates are by ``parameters``. ``start`` is the velocity that forces are of.
    """

    def __init__(
        self, step: KernelStep, given: StepInputs, problem: Problem, start: Sequence[Scalar],
        parameters: Sequence[Hashable],
    ) -> None:  # fmt: skip
        self.ops, self.problem, self.parameters, self.h = cast(DualOps, problem.ops), problem, parameters, given.h
        self.points, self._step, self._J = points_of(problem, given), step, jacobian(problem)
        first = min((law.spins[0] for law in step.patches.values()), default=0)
        self.patches = patches_of(problem, self.points, first)
        self._motion = given.motion([Dual(x) for x in start], problem).conserving_momentum()
        self._start = [Dual(x) for x in start]
        self._springs = given.springs_in(problem, self._start)
        self._at_rest = self._motion.at_rest(self.ops.zeros(step.tree.nv, 1), self.ops.zeros(problem.n_rows, 1))

    @property
    def acting(self) -> list[int]:
        """Parameters that inertias, rows, gaps, springs, units or the time step vary with: what displacements do."""
        ops, gaps = self.ops, [candidate.gap for candidate, *_ in self.points]
        gaps += self._springs.masses if self._springs is not None else []
        entries = [x for a in (*self.problem.inertias, self._J) for row in ops.entries(a) for x in row]
        units = [law.over for law in self.patches.values()]
        keys = {key for x in (*entries, *gaps, *units, self.h) for key in rates_of(x)}
        return [k for k, key in enumerate(self.parameters) if key in keys]

    def rates(self, numbers: Sequence[Any]) -> Matrix:
        """Changes of numbers (n) with parameters (n × k)."""
        return self.ops.rates(numbers, self.parameters)

    def impulses(self, response: ModeResponse, p: Sequence[Scalar]) -> list[Any]:
        """Impulses of rows (m), with what friction coefficients and time steps change of those that slide."""
        out, rows = list[Any](p), iter(self._step.others)
        shares = list[tuple[Scalar, Scalar]]()
        for k, (mode, (_, mu, _)) in enumerate(zip(response.modes, self.points, strict=True)):
            if k in self.patches:
                self._of_patch(k, mode, out)
                shares += [(0.0, 0.0)] * 3
            else:
                shares += [(y, mu) for y in mode.with_friction]
        shares += [(hold.slip * self._step.over_h, self.h) for hold in response.holds.values()]
        for y, varying in shares:
            row = next(rows)
            rates = rates_of(varying)
            if rates or not isinstance(out[row], Dual):
                out[row] = Dual(out[row], {k: y * rate for k, rate in rates.items()})
        return out

    def _of_patch(self, k: int, mode: Mode, out: list[Any]) -> None:
        """Put those of a patch, whose law has units of its own, in the place of its impulses."""
        law, own = self._step.patches[k], self.patches[k]
        rows = [self._step.others[row] for row in law.rows]
        of_law = law.of_law([out[row] for row in rows])
        changing = [Dual(p, {key: y * rate for key, rate in rates_of(own.friction).items()})
                    for p, y in zip(of_law, mode.with_friction, strict=True)]  # fmt: skip
        for row, x in zip(rows, own.in_law(changing), strict=True):
            out[row] = Dual(out[row], rates_of(x))

    def momentum(
        self, gained: Sequence[Scalar], impulses: Sequence[Any], with_forces: bool = False, in_instant: bool = False,
        further: Sequence[Scalar] | None = None,
    ) -> Matrix:  # fmt: skip
        """Changes (nv × k) of ``M (v⁺ − v) − Jᵀ p``, and with forces of ``h (c − τ)``; of ``M`` with springs' masses.

        Springs do nothing ``in_instant``. Products are ``Γ(v, v + y)`` where velocities y (nv) are ``further``.
        """
        motion, h = (self._motion, self.h) if with_forces else (self._at_rest, 1.0)
        out = column(self.ops, momentum(motion, h, gained, impulses))
        if self._springs is not None and not in_instant:
            of_springs = self._springs.momentum(gained, self._start) if with_forces else None
            out = plus(out, of_springs or self._springs.momentum_of_masses(gained))
        if further is not None:  # 4 Γ(v, y) = c(v + y) − c(v − y)
            v, none = [x for own in self._motion.v for x in column(self.ops, own)], [0.0] * len(gained)
            ends = (self._motion.without_forces(f(v, further)) for f in (plus, minus))
            a, b = (column(self.ops, momentum(end, self.h, none, [])) for end in ends)
            out = [x + 0.25 * (y - z) for x, y, z in zip(out, a, b, strict=True)]
        return self.rates(out)

    def along_rows(self, x: Sequence[Scalar]) -> list[Any]:
        """``J x`` (m)."""
        return column(self.ops, self._J @ from_entries(self.ops, x)) if self.problem.n_rows else []

    def rows(self, x: Sequence[Scalar]) -> Matrix:
        """Changes (m × k) of ``J x``."""
        return self.rates(self.along_rows(x))

    def errors(self) -> Matrix:
        """Changes (m × k) of position errors of constraints."""
        return self.rates(column(self.ops, position_errors(self._motion)))

    def velocities(
        self, v: Sequence[Scalar], closing: Sequence[Scalar] | None = None, late: Sequence[Scalar] | None = None
    ) -> Matrix:
        """Changes (m × k) of ``J v`` with the motion of surfaces, and with rates at which gaps may close.

        ``closing`` (n) are changes of these with gaps (1/s), ``late`` (nv) what an impact displaces.
        """
        base, out, own = self.ops.base, self.along_rows(v), iter(self._step.others)
        over_h, displaced = 1.0 / self.h, None if late is None else self.along_rows(late)
        for k, (candidate, *_) in enumerate(self.points):
            rate: Any = 0.0
            if closing is not None:
                rate = candidate.gap * closing[k] + over_h * base.maximum(value(candidate.gap), 0.0)
            if displaced is not None:
                rate = rate + over_h * displaced[self._step.others[3 * k + 2]]
            for x in (*candidate.belt, *([0.0] * (2 - len(candidate.belt))), rate):
                row = next(own)
                out[row] = out[row] + x
        for k, law in self.patches.items():  # in units that vary
            unit = Dual(value(law.over), rates_of(law.over)) * self._step.patches[k].friction
            for row in law.spins:
                turned = self._step.others[row]
                out[turned] = unit * out[turned]
        return self.rates(out)
