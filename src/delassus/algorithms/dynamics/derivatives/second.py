"""Second derivatives of constrained forward dynamics, by differentiating the system of the first ones once more.

With ``z = (q̈, f)`` and ``F(x, z) = (ID − Jᵀ f − τ, J q̈ + R f − γ) = 0``, linear in ``z`` by ``K = ∂F/∂z``,

    ``K ∂²z/∂x∂y = −(∂²F/∂x∂y + ∂K/∂x ∂z/∂y + ∂K/∂y ∂z/∂x)``.

Along weights ``w`` of ``z``, with multipliers ``(λ, μ) = K⁻ᵀ w`` all that is left are second derivatives of one number,
``λᵀ r + μᵀ g`` (`curvature`, `row_curvature`), and first ones of ``E = Kᵀ (λ, μ)``, which only positions change: those
of inverse dynamics of the robot at rest with accelerations ``λ`` under forces ``−μ``. So

    ``∂²(w·z)/∂x∂y = −(ℓ_xy + E_x · z_y + E_y · z_x)``

costs about as much as first derivatives, O(n d + n² + n m); the tensor of all of ``z`` is that of each of its numbers.
With joint forces, ``ℓ`` has none, and ``q̈`` and ``f`` are linear in them. A floating root's acceleration is solved for
beyond its drift, as in `accelerations`. Joint forces that controls make enter by their second derivatives.
Rows that depend on one another have no second derivatives of forces here. Nothing here is from a source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from delassus.algorithms.dynamics.derivatives.accelerations import Derivatives, by_joint, residual_changes
from delassus.algorithms.dynamics.derivatives.curvature import (
    gravity_curvature,
    joint_force_curvature,
    passive_curvature,
)
from delassus.algorithms.dynamics.derivatives.rates import Rates
from delassus.algorithms.dynamics.derivatives.row_curvature import row_curvature, spring_curvature
from delassus.algorithms.dynamics.derivatives.rows import row_changes
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.model.tree import WORLD
from delassus.spatial.motion import scaled, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar

SECOND_DERIVATIVES: Mapping[str, str] = MappingProxyType(
    {
        f"d2{what}_d{first}d{then}": f"change of {meaning} with {by} and {other}"
        for what, meaning in (("qdd", "joint accelerations"), ("f", "constraint forces"))
        for first, by, then, other in (
            ("q", "positions", "q", "positions"),
            ("q", "positions", "v", "velocities"),
            ("v", "velocities", "v", "velocities"),
            ("q", "positions", "tau", "joint forces"),
        )
    }
)
"""Names of second derivatives, and what they are; those of other pairs are zero."""


class Second(NamedTuple):
    """Second derivatives of a number by positions, velocities and joint forces or controls; of a pair, rows first."""

    qq: Matrix
    qv: Matrix
    vv: Matrix
    qtau: Matrix
    vtau: Matrix
    tautau: Matrix


ControlCurvature = Callable[[Matrix], Second]
"""From weights (nv × 1) of joint forces to their second derivatives."""


class SecondDerivatives:
    """Second derivatives of a solution along weights of accelerations and forces.

    Those that are ``found`` are first ones with controls in place of joint forces, if these make them; then
    ``controls`` has second derivatives of joint forces.
    """

    def __init__(self, motion: DynamicsProblem, found: Derivatives, controls: ControlCurvature | None = None) -> None:
        ops, nv, changes, self._controls = motion.ops, motion.tree.nv, found.changes, controls
        self._motion, self._rates, self._response = motion, found.rates, found.response
        self._forces, self._widths = found.solution.forces, [nv, nv, ops.shape(changes["dqdd_dtau"])[1]]
        with_q = changes["dqdd_dq"]
        if found.rates.root != WORLD:
            with_q = with_q + ops.put(found.rates.drift_q, (nv, nv), range(6), range(6))
        accelerations = ops.hstack([with_q, changes["dqdd_dv"], changes["dqdd_dtau"]])
        self._z = ops.vstack([accelerations, ops.hstack([changes[f"df_d{by}"] for by in ("q", "v", "tau")])])

    def along_each(self, weights: Matrix, h: Scalar) -> list[tuple[Second, Second]]:
        """Those of ``w·q̈`` for each column ``w`` of weights (nv × k), and ``h`` times them."""
        ops, response = self._motion.ops, self._response

        def both(lam: Matrix, mu: Matrix) -> list[Matrix]:
            found = self._along(lam, mu)
            return [*found, *(scaled_matrix(ops, h, x) for x in found)]

        columns, out = self._columns(response.A @ weights, -(response.df_dtau @ weights)), list[tuple[Second, Second]]()
        for k, made in enumerate(ops.map(both, columns)):
            w = ops.take(weights, None, (k,))
            along, scaled_ = Second(*made[: len(made) // 2]), Second(*made[len(made) // 2 :])
            out.append((self._on_root(along, w), self._on_root(scaled_, scaled_matrix(ops, h, w))))
        return out

    def tensors(self) -> list[Matrix]:
        """`SECOND_DERIVATIVES`: those of all accelerations (nv² × nv), one below the other, and of all forces."""
        ops, nv, found = self._motion.ops, self._motion.tree.nv, self._each()
        return [
            ops.vstack([ops.zeros(0, nv), *(x[pair] for x in of)])
            for of in (found[:nv], found[nv:])
            for pair in range(4)
        ]

    def along(self, weights: Matrix, of_forces: Matrix | None = None) -> Second:
        """Those of ``w·q̈``, and of ``w·f``, with weights (nv × 1) and (m × 1)."""
        ops, response = self._motion.ops, self._response
        lam, mu = response.A @ weights, -(response.df_dtau @ weights)
        if of_forces is not None:
            lam, mu = lam + ops.transpose(response.df_dtau) @ of_forces, mu + response.inverse @ of_forces
        return self._on_root(self._along(lam, mu), weights)

    def _each(self) -> list[Second]:
        """Those of each acceleration, and of each force."""
        ops, nv, response = self._motion.ops, self._motion.tree.nv, self._response
        lam = ops.hstack([response.A, ops.transpose(response.df_dtau)])
        mu = ops.hstack([-response.df_dtau, response.inverse])
        out = [Second(*x) for x in ops.map(self._along, self._columns(lam, mu))]
        for k in range(6 if self._rates.root != WORLD else 0):
            out[k] = self._on_root(out[k], ops.put(ops.eye(1), (nv, 1), (k,), (0,)))
        return out

    def _columns(self, lam: Matrix, mu: Matrix) -> list[tuple[Matrix, Matrix]]:
        ops = self._motion.ops
        return [(ops.take(lam, None, (k,)), ops.take(mu, None, (k,))) for k in range(ops.shape(lam)[1])]

    def _on_root(self, found: Second, weights: Matrix) -> Second:
        """With the drift that a floating root's acceleration is solved for beyond."""
        ops, nv = self._motion.ops, self._motion.tree.nv
        if self._rates.root == WORLD:
            return found
        own = gravity_curvature(self._rates, ops.take(weights, range(6), None))
        return found._replace(qq=found.qq - ops.put(own, (nv, nv), range(6), range(6)))

    def _along(self, lam: Matrix, mu: Matrix) -> Second:
        """Those along multipliers (nv × 1) and (m × 1), but for a floating root's drift."""
        ops, (nv, _, n) = self._motion.ops, self._widths
        qq, qv, vv, E = self._parts(-lam, -mu)  # so that nothing is negated in the end
        turned = E @ self._z
        by_q, by_v, by_tau = (
            ops.take(turned, None, range(*ends)) for ends in ((0, nv), (nv, 2 * nv), (2 * nv, 2 * nv + n))
        )
        qq, qv = ops.sym_add(qq, _both(ops, by_q)), qv + by_v
        if self._controls is None:
            return Second(qq, qv, vv, by_tau, ops.zeros(nv, n), ops.zeros(n, n))
        own = self._controls(lam)
        return Second(own.qq + qq, own.qv + qv, own.vv + vv, own.qtau + by_tau, own.vtau, own.tautau)

    def _parts(self, lam: Matrix, mu: Matrix) -> list[Matrix]:
        """``ℓ_qq``, ``ℓ_qv``, ``ℓ_vv`` and ``E_qᵀ`` (nv × nv + m) along multipliers (nv × 1) and (m × 1)."""
        motion, rates, ops, problem = self._motion, self._rates, self._motion.ops, self._motion.problem
        nv, m = motion.tree.nv, problem.n_rows
        still = motion.at_rest(ops.zeros(nv, 1), ops.zeros(m, 1))
        rest = Rates(still, by_joint(still, lam))
        mu = ops.vstack([ops.zeros(0, 1), *(
            problem.switched(k, ops.take(mu, range(s.start, s.stop), None)) for k, s in enumerate(problem.rows)
        )])  # fmt: skip
        total = joint_force_curvature(rates, rest) + passive_curvature(motion, lam)
        total = sum(spring_curvature(rates, rest), total)
        on_drift, acting, of_rows = ops.zeros(6, 1), [], [ops.zeros(nv, 0)]
        for k, s in enumerate(problem.rows):
            part, f = (ops.take(x, range(s.start, s.stop), None) for x in (mu, self._forces))
            acting.append(row_changes(still, rest, k, -part))
            of_rows.append(ops.transpose(-problem.switched(k, acting[-1].with_q)))
            if (curved := row_curvature(rates, rest, k, part, f)) is not None:
                total = total + curved
            if (on_root := problem.rows_on_joints_of(k).get(rates.root)) is not None:
                on_drift = on_drift + ops.transpose(on_root) @ part
        E = ops.hstack([ops.transpose(residual_changes(rest, acting)[0]), *of_rows])
        if rates.root == WORLD:
            return [total.qq, total.qv, total.vv, E]
        armature = motion.tree.joints[rates.root].armature
        if armature.any():
            root = ops.take(lam, range(6), None)
            on_drift = on_drift + scaled(ops, armature.tolist(), root)
        own = gravity_curvature(rates, on_drift)
        return [total.qq - ops.put(own, (nv, nv), range(6), range(6)), total.qv, total.vv, E]


def _both(ops: Ops, a: Matrix) -> Matrix:
    """``A + Aᵀ``."""
    return ops.sym_add(a, ops.transpose(a))
