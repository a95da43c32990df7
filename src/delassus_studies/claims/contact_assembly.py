"""Table 1 of [OS] as published: operations of assembly in place of times.

Assembly is counted by the machine that other studies count with (`delassus_studies.count_ops`), on the texts that
the sections of the paper name. On a chain such a count is a polynomial in the number of links, so that few of them
give its degree exactly, which no terms of lower order hide, and its value at any length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise

import delassus as ds
from delassus.algorithms.articulated import Articulated
from delassus.algorithms.crba import mass_matrix
from delassus.algorithms.dynamics.aba import driving_forces, forward_pass
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.osim.kjr import kjr
from delassus.algorithms.osim.pvr import pv_osimr
from delassus.algorithms.problem import Problem
from delassus.algorithms.rnea import joint_forces, link_forces
from delassus.cli.tables import table
from delassus.constraints import Constraint
from delassus.model.mechanisms import pendulum as chain_of_balls
from delassus_studies.claims import Finding, Setup, verdict
from delassus_studies.count_ops import CountOps

# -- operations of assembly (Table 1) ----------------------------------------------------------------------------------


def unknown_state(n: int, links: Sequence[int], constraint: Callable[[str], Constraint]) -> DynamicsProblem:
    """Pendulum of ``n`` links whose state is not known, on a machine that counts, with constraints on some links."""
    ops, tree = CountOps(), chain_of_balls(n)
    problem = Problem(ops, tree, [constraint(tree.link_names[i]) for i in links], ops.state(tree.nq))
    return DynamicsProblem(problem, ops.state(n), ops.state(n), gravity=ops.constant([[0.0], [0.0], [-9.8]]))


def last(n: int, n_contacts: int = 4) -> range:
    """The last links, one contact each."""
    return range(n - n_contacts, n)


def nmc(n: int) -> int:
    """Operations of eq. 27: transforms of hinges for ``G_b``, known wrenches; ``M`` is constant."""
    motion = unknown_state(n, last(n), ds.Point)
    link_forces(motion)
    for X in motion.problem.X:
        X.motions_to_child(motion.ops.eye(6))
    return _total(motion)


def mc(n: int) -> int:
    """Operations of eq. 36: composite rigid bodies for ``𝓜``, ``G_u``, bias forces."""
    motion = unknown_state(n, last(n), ds.Point)
    mass_matrix(motion.problem), jacobian(motion.problem), joint_forces(motion)
    return _total(motion)


def rmc(n: int) -> int:
    """Operations of eqs. 39 and 41 without loops: ``Y = 𝓜⁻¹`` dense, ``G_u Y G_uᵀ`` and ``G_u Y (𝒯 − 𝒞)``."""
    motion = unknown_state(n, last(n), ds.Point)
    ops, M, G_u = motion.ops, mass_matrix(motion.problem), jacobian(motion.problem)
    Y, forces = ops.factor(M).inverse(), ops.vstack(joint_forces(motion))
    ops.sym_product(G_u @ Y, ops.transpose(G_u)), G_u @ (Y @ forces)
    return _total(motion)


def operational_space(n: int, links: Sequence[int] | None = None, method: Callable[[Problem], object] = kjr) -> int:
    """Operations of eq. 53: ``Λ`` at nodes of six rows by eqs. 66 to 69, ``θ̈_f`` by articulated bodies.

    Bodies are articulated twice, once for each: the texts are those of two algorithms.
    """
    motion = unknown_state(n, last(n) if links is None else links, ds.Weld)
    method(motion.problem)
    body = Articulated(motion.problem)
    forward_pass(motion, body, driving_forces(motion, body))
    return _total(motion)


def _total(motion: DynamicsProblem) -> int:
    assert isinstance(motion.ops, CountOps)
    return motion.ops.total


ASSEMBLY: Mapping[str, tuple[Callable[[int], int], str, int]] = {
    "NMC": (nmc, "n", 1),
    "MC": (mc, "N²", 2),
    "RMC": (rmc, "N³", 3),
    "OS": (operational_space, "N + n_c²", 1),
}
"""How to count, what the paper says, and the degree in the number of links."""

FIRST, COUNTED, CHECKED = 12, 7, 40
"""Fewest links counted, how many lengths, and the length at which the polynomial is checked by a count."""
LONG = 100
NEAR = 0.1
"""How near to its degree a power is taken to be it."""


def differences(values: Sequence[int]) -> list[int]:
    """First entries of the sequence, of its differences, of theirs …; the last one is not zero."""
    out, rest = [], list(values)
    while any(rest):
        out.append(rest[0])
        rest = [b - a for a, b in pairwise(rest)]
    return out


def extrapolated(found: Sequence[int], steps: int) -> int:
    """Value of the polynomial with these `differences`, so many steps on."""
    return sum(math.comb(steps, k) * d for k, d in enumerate(found))


def power(found: Sequence[int], n: int) -> float:
    """Exponent between ``n / 2`` and ``n`` links."""
    return math.log2(extrapolated(found, n - FIRST) / extrapolated(found, n // 2 - FIRST))


@cache
def polynomial(name: str) -> tuple[int, ...]:
    """`differences` of the operations of a formulation at lengths from `FIRST` on."""
    count = ASSEMBLY[name][0]
    return tuple(differences([count(n) for n in range(FIRST, FIRST + COUNTED)]))


def length_of_power(name: str) -> int:
    """Links, in steps of ten, from which on the power is its degree but for `NEAR`."""
    found = polynomial(name)
    return next(n for n in range(30, 10**6, 10) if abs(power(found, n) - len(found) + 1) <= NEAR)


NODES = (5, 10)
"""Numbers of nodes spread over a pendulum whose numbers of links they divide."""


def of_link_and_node(method: Callable[[Problem], object], n: int = LONG) -> float:
    """Operations for each link and node that ``Λ`` at spread nodes takes beside those for each link, for each node."""

    def grows(nodes: int) -> int:
        """By twice as many links."""
        spread = ((length, range(length - 1, 0, -length // nodes)[:nodes]) for length in (n, 2 * n))
        short, long = (operational_space(length, links, method) for length, links in spread)
        return long - short

    few, many = NODES
    return (grows(many) - grows(few)) / n / (many - few)


def grown(lengths: Sequence[int], costs: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """Costs over that of the shortest length, by length."""
    return lengths, [cost / costs[0] for cost in costs]


def growth(setup: Setup) -> Finding:
    """Table 1: degrees of the operations of assembly, and the lengths at which a measured power shows them."""
    found, long = {name: polynomial(name) for name in ASSEMBLY}, CHECKED if setup.quick else LONG
    degrees = {name: len(each) - 1 for name, each in found.items()}
    counted = {name: count(CHECKED) for name, (count, _, _) in ASSEMBLY.items()}
    exact = [counted[name] == extrapolated(each, CHECKED - FIRST) for name, each in found.items()]
    nodes = differences([operational_space(long, last(long, k)) for k in range(4, 10)])
    spread, hopping = of_link_and_node(kjr, long), of_link_and_node(pv_osimr, long)
    parts = [*(degrees[name] == degree for name, (_, _, degree) in ASSEMBLY.items()), *exact, len(nodes) == 3]
    said = ", ".join(
        f"{name} {degrees[name]} (claim {claim}; power {power(found[name], long):.1f} at n = {long}, within {NEAR} of "
        f"it from {length_of_power(name)} on)"
        for name, (_, claim, _) in ASSEMBLY.items()
    )
    lengths = [2**k * 25 for k in range(5)]
    lines = ((name, *(extrapolated(each, n - FIRST) for n in lengths)) for name, each in found.items())
    return Finding(
        f"operations of assembly are polynomials, of degree {said}; of degree {len(nodes) - 1} in n_c for nodes on "
        f"neighbouring links. Nodes spread over the chain: {spread:.0f} operations more for each link and node by eq. "
        f"69 joint by joint, {hopping:.0f} from node to node (PV-OSIMr).",
        verdict([*parts, hopping == 0]),
        "",
        {"operations of assembly": {name: grown(lengths, [extrapolated(each, n - FIRST) for n in lengths])
                                    for name, each in found.items()}},
        (table("[OS] Table 1, operations of assembly by number of links, four contacts",
               ("", *(f"{n}:.0f" for n in lengths)), lines),),
    )  # fmt: skip
