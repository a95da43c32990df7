"""How forces of motors and of constraints change with a motion: derivatives of `inverse_dynamics` with constraints.

Where the rank stays, the equations there are differentiated with ``f``, ``λ`` and ``r = b_u − J_uᵀ f`` held on the
right; ``J_u r = 0``. With ``x = [W τ_a; λ]`` and ``∂ρ = ∂(b − Jᵀ f)``,

    H ∂f = ∂(J x) + J_a W ∂ρ_a + J_u ∂λ,    J_uᵀ ∂f = P ∂ρ_u + z,    J_u z = ∂(J_u r),

``∂(J x)`` being the change of ``J q̈`` at ``q̈ = x`` of the robot at rest. Nothing here is from a source.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.dynamics.derivatives.accelerations import residual_changes, velocity_changes
from delassus.algorithms.dynamics.derivatives.motions import inverse_dynamics_changes
from delassus.algorithms.dynamics.derivatives.rates import Rates
from delassus.algorithms.dynamics.derivatives.rows import row_changes
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.loops.inverse_dynamics import constrained_inverse_dynamics
from delassus.spatial.motion import scaled
from delassus.spatial.ops import Matrix, Scalar


def constrained_inverse_dynamics_changes(
    motion: DynamicsProblem, qdd: list[Matrix], motors: Sequence[int], weights: Sequence[Scalar] | None
) -> list[list[Matrix]]:
    """Derivatives of ``τ``, ``f``, what is missing, what rows miss and the rank with q, v and q̈ (rows × nv each)."""
    ops, problem, nv = motion.ops, motion.problem, motion.tree.nv
    found, passive = constrained_inverse_dynamics(motion, qdd, motors, weights, {}), sorted({*range(nv)} - {*motors})
    weights = [1.0] * (nv + problem.n_rows) if weights is None else weights
    system, J, none = found.system, jacobian(problem), [ops.zeros(1, nv)] * 3
    by_state = inverse_dynamics_changes(motion, qdd)

    def at(part: Sequence[int], change: Matrix) -> Matrix:
        return ops.put(ops.take(change, part, None), (nv, nv), part, range(nv))

    if system is None:
        empty = [ops.zeros(0, nv)] * 3
        return [[at(motors, x) for x in by_state], empty, [at(passive, x) for x in by_state], empty, none]

    # changes of b − Jᵀ f, and of what rows miss
    parts = [ops.take(found.forces, range(s.start, s.stop), None) for s in problem.rows]
    rates = Rates(motion, qdd, is_given=True)
    by_state[0] = residual_changes(rates, [row_changes(motion, rates, k, part) for k, part in enumerate(parts)])[0]
    weightless = DynamicsProblem(problem, motion.velocity, None, gravity=ops.zeros(3, 1))
    moving = Rates(weightless, qdd, is_given=True)
    rows = [row_changes(weightless, moving, k) for k in range(len(problem.constraints))]
    of_states = [c.with_q for c in rows], [c.with_v for c in rows]
    missed = [ops.vstack([problem.switched(k, x) for k, x in enumerate(of_one)]) for of_one in of_states]

    # x = [W τ_a; λ], with J_u λ = V f − J_a W τ_a
    by_motors = scaled(ops, [weights[k] for k in motors], ops.take(found.tau, motors, None))
    of_rows = scaled(ops, list(weights[nv:]), found.forces) - ops.take(J, None, motors) @ by_motors
    x = ops.put(by_motors, (nv, 1), motors, (0,))
    if passive:
        x = x + ops.put(system.solved(ops, ops.transpose(system.Z) @ of_rows), (nv, 1), passive, (0,))
    turned, unreached = (ops.vstack(velocity_changes(motion, y)) for y in (x, found.missing))

    tau, forces, missing = list[Matrix](), list[Matrix](), list[Matrix]()
    for k, change in enumerate(by_state):
        of_motors, of_others = (ops.take(change, part, None) for part in (motors, passive))
        df = system.weighted @ of_motors
        df = system.factor.solve(df + turned if k == 0 else df)
        if passive:
            asked = system.given(ops, of_others)
            if k == 0:
                asked = asked + system.given(ops, system.solved(ops, ops.transpose(system.Z) @ unreached))
            df = df + system.Z @ system.solved(ops, asked - ops.transpose(system.rows) @ df)
        left = change - ops.transpose(J) @ df
        forces.append(df)
        tau.append(at(motors, left))
        missing.append(at(passive, left))
    return [tau, forces, missing, [*missed, J], none]
