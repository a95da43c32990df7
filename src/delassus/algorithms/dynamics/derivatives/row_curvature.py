"""Second derivatives of rows of constraints along multipliers: of ``ℓ = μᵀ (Σ K a − k) − fᵀ Σ K Λ``.

``ℓ`` is a function of displacements ``x`` of the links that the rows are on, of their twists ``V``, accelerations ``a``
and twists ``Λ`` in their own frames; numbers with second rates (`TwiceDualOps`) give its gradient and its second
derivatives ``H`` by these. Displacements are ``exp(x)``, where joints k and j, k above j, make

    ``x = s_k δ_k + s_j δ_j + ½ (s_k × s_j) δ_k δ_j + …``

and all else changes as `curvature` says. With the changes ``D`` of what ``ℓ`` is a function of, the result is
``Dᵀ H D`` and what the gradient is multiplied with. Nothing here is from a source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from delassus.algorithms.blocks import assembled
from delassus.algorithms.dynamics.derivatives.curvature import Curvature, changes_of, paired
from delassus.algorithms.dynamics.derivatives.rates import Rates
from delassus.algorithms.dynamics.derivatives.rows import VELOCITY, Displaced, beyond, held_joints, spring_force
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.frozen import cached_property
from delassus.model.tree import WORLD
from delassus.spatial.dual_ops import TwiceDualOps
from delassus.spatial.motion import column, cross_matrix, dot, force_matrix, motion_matrix, scaled_matrix
from delassus.spatial.ops import Matrix
from delassus.spatial.transform import Pose

ACCELERATION, MULTIPLIER = "acceleration", "multiplier"
"""Names of accelerations of links and of their twists ``Λ``, among what rows vary with."""


class Curved(Displaced):
    """`Displaced` to second order: links are displaced by ``exp(x)``."""

    def __init__(self, rates: Rates, index: int, motion: DynamicsProblem | None = None) -> None:
        self.twice = TwiceDualOps(rates.motion.ops)
        super().__init__(rates, index, self.twice, motion)

    def motions(self, name: str, of_links: Sequence[Matrix]) -> dict[int, Any]:
        """Motions of the links that rows are on as numbers that vary, each by ``((name, link), k)``."""
        return {
            i: self.dual.lifted(of_links[i], lambda k, _, i=i: {((name, i), k): 1.0})  # type: ignore[misc]
            for i in self.rows_on_links
        }

    def _displacement(self, link: int, sign: float) -> Pose:
        if link == WORLD:
            return super()._displacement(link, sign)
        x = self.dual.lifted(self._at.ops.zeros(6, 1), lambda k, _: {(link, k): sign})
        v, w = x[:3], x[3:]
        W = cross_matrix(self.ops, w)
        half = scaled_matrix(self.ops, 0.5, W)
        return self.ops.eye(3) + W + half @ W, v + half @ v

    @cached_property
    def centre_of_mass(self) -> Any:
        """Of all links in the world."""
        base, rates = self._at.ops, self._rates
        masses = [base.entries(body.m)[0][0] for body in rates.bodies]
        total, moved = sum(masses), self.ops.zeros(3, 1)
        for i, (body, m) in enumerate(zip(rates.bodies, masses, strict=True)):
            R, p = self._displacement(i, 1.0)
            own = self.dual.lifted(base.matrix([[m]]))
            moved = moved + (R - self.ops.eye(3)) @ self.dual.lifted(body.h) + p @ own
        R, _ = rates.in_common(WORLD, (base.eye(3), base.zeros(3, 1)))
        back = scaled_matrix(base, 1.0 / total, base.transpose(R))
        return self.dual.lifted(self._at.robot.centre_of_mass) + self.dual.lifted(back) @ moved


def row_curvature(rates: Rates, rest: Rates, index: int, mu: Matrix, f: Matrix) -> Curvature | None:
    """Second derivatives of ``ℓ`` of the constraint of that number; None of one that is not on links.

    ``rest`` as in `joint_force_curvature`, ``mu`` and ``f`` (m × 1).
    """
    motion, ops = rates.motion, rates.motion.ops
    if not motion.problem.constraints[index].carriers(motion.tree) or not motion.problem.rows_on_links_of(index):
        return None
    at = Curved(rates, index)
    missed = column(at.ops, at.missed(at.motions(ACCELERATION, rates.a), at.goal))
    return _curvature(rates, rest, at, dot(missed, column(ops, mu)), at.dual.lifted(f))


def spring_curvature(rates: Rates, rest: Rates) -> Iterator[Curvature]:
    """Second derivatives of ``−fᵀ Σ K Λ`` of each spring whose force ``f`` is known."""
    for index, c in enumerate(rates.motion.springs):
        at = Curved(rates, index, rates.motion.pulling)
        yield _curvature(rates, rest, at, 0.0, spring_force(c, at))


def _curvature(rates: Rates, rest: Rates, at: Curved, number: Any, pull: Any) -> Curvature:
    """Second derivatives of a number less ``fᵀ Σ K Λ``."""
    ops, tree, of = rates.motion.ops, rates.motion.tree, changes_of(rates, rest)
    nv, links, held = tree.nv, [*at.rows_on_links], held_joints(at.constraint, tree)
    for link, twist in at.motions(MULTIPLIER, rest.a).items():
        number = number - dot(column(at.ops, pull), column(at.ops, at.rows_on_links[link] @ twist))

    # Dᵀ H D
    names = [name for i in links for name in (i, (VELOCITY, i), (ACCELERATION, i), (MULTIPLIER, i))]
    keys = [(name, k) for name in names for k in range(6)]
    H, with_q, with_v = at.twice.second_rates(number, keys), list[Matrix](), list[Matrix]()
    sizes, none = [joint.nv for joint in tree.joints], ops.zeros(6, nv)
    for link in links:
        moving = [j for j in tree.support(link) if j not in held]
        S, psi, xi, chi, phi = (
            assembled(ops, [6], sizes, {(0, j): x[j] for j in moving}) for x in (of.S, of.psi, of.xi, of.chi, of.phi)
        )
        turn = motion_matrix(ops, rates.V[link])
        with_q += [S, psi, xi - turn @ psi, chi]
        with_v += [none, S, phi - turn @ S, none]
    D_q, D_v = ops.vstack(with_q), ops.vstack(with_v)
    HD_q, HD_v, back = H @ D_q, H @ D_v, ops.transpose(D_q)
    direct = Curvature(ops.sym_product(back, HD_q), back @ HD_v, ops.sym_product(ops.transpose(D_v), HD_v))

    # of the gradient, summed over the links beyond each joint
    of_links = dict[int, list[Matrix]]()
    for link in links:
        x, b, h, z = (
            at.twice.first_rates(number, [(name, k) for k in range(6)])
            for name in (link, (VELOCITY, link), (ACCELERATION, link), (MULTIPLIER, link))
        )
        of_links[link] = [x, b + force_matrix(ops, h) @ rates.V[link], h, z]
    own: list[tuple[Matrix | None, ...]] = [(None,) * 6 for _ in tree.joints]
    for j, gradient in beyond(tree, of_links, held).items():
        x, b, h, z = (force_matrix(ops, y) for y in gradient)
        S = rates.S[j]
        X = h @ S
        own[j] = X, h @ rates.psi[j] + b @ S, z @ S, X, None, scaled_matrix(ops, 0.5, x @ S)
    return direct + paired(rates, of, own, held)
