"""Operations by formula, as [EFPA] counts them: its algorithm, KJR (its RJKA) and sparse factorisation (its SFA).

No text of `delassus.algorithms` is run: the paper counts floating-point operations of whole spatial operations over the
connectivity graph, and the texts part from it where they take rows in place of frames of end-effectors (EFPA: the own
block is symmetric; KJR: one product with the rows, not two changes of frame).

Joints are revolute about z in frames of Denavit and Hartenberg: a screw along x, then one along z. The paper prints
some costs; the others are products counted entry by entry (m: multiplications, a: additions), in the way that gives the
printed ones:

- a rotation of a pair of coordinates 4m+2a, of a symmetric 2 × 2 block 4m+5a, of another 4m+8a (the trace and the
  antisymmetric part do not change; products of sine and cosine, once a joint, 2m+3a);
- so a rotation of an articulated inertia 28m+26a, of one whose row z is zero 20m+22a: with sine and cosine the printed
  22m+25a; a translation along an axis 10m+14a; a rigid inertia over both screws 32m+33a, a 6-vector 20m+12a;
- ``L B Lᵀ`` 35m+28a (``L`` is the identity but for row z, of five numbers): with 28m+26a the printed 63m+54a.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from delassus.model.mechanisms import asimo
from delassus.model.tree import WORLD, Tree
from delassus_studies.claims import Finding, Setup, verdict
from delassus_studies.figures import bars


@dataclass(frozen=True, slots=True)
class JointCosts:
    """Flops across one joint."""

    articulated: int  # Xᵀ (Iᴬ L) X, whose row z is zero
    add: int  # to the parent's articulated inertia
    rows: int  # (𝒳 L) X, whose column z is zero
    columns: int  # X Λ
    congruence: int  # L X Ω Xᵀ Lᵀ


SCREWS = JointCosts(articulated=62 + 65, add=21, rows=6 * (18 + 10), columns=6 * (20 + 12), congruence=111 + 108)
"""``articulated``: z 28m+34a, x 32m+28a, sine and cosine 2m+3a; ``congruence``: twice 38m+40a, and ``L``."""
ROTATION = JointCosts(articulated=47, add=15, rows=6 * (8 + 4), columns=72, congruence=117)
"""The privileged child of the floating base: printed, ``rows`` as ``columns``."""

RIGID, RIGID_ROTATION, VECTOR = 32 + 33 + 10, 14 + 12 + 10, 20 + 12  # inertia to the parent and added; a 6-vector
ARTICULATED_JOINT = 1 + 5 + 15 + 15  # D⁻¹, D⁻¹ U and Iᴬ L
TO_ROWS, TO_COLUMNS, ADD_JOINT = 30 + 30, 30 + 24, 6 + 6  # 𝒳 L; L of six columns; K 𝒳ᵀ and its sum
INVERSE, PRODUCT, ZERO_ROW = 231, 216 + 180, 36 + 36  # of the base; dense 6 × 6, and with a zero row less
FRAME, FRAME_SYMMETRIC, OWN_FRAME, PAIR_FRAME = 144 + 108, 81 + 60, 137 + 137, 288 + 216
"""Change to an end-effector's frame: of six columns; of those with a symmetric result; both sides, printed."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the paper leaves open."""

    privileged: int = 0  # which child of the floating base
    zeros: bool = True  # EFPA skips column z of 𝒳 L, which is zero
    symmetric: bool = False  # EFPA computes half of its own blocks at the end
    shared: bool = False  # KJR computes cross blocks that several pairs need once
    sparse_privileged: bool = False  # the privileged child saves sparse factorisation operations, too


@dataclass(frozen=True, slots=True)
class Graph:
    """A tree and the links of its end-effectors, and how to count."""

    tree: Tree
    ends: tuple[int, ...]
    reading: Reading = Reading()

    @property
    def floating(self) -> bool:
        """Whether link 0 is a floating base."""
        return self.tree.joints[0].nv == 6

    def free(self, i: int) -> bool:
        """Whether link ``i`` is the privileged child."""
        return self.floating and i == self.tree.children[0][self.reading.privileged]

    def costs(self, i: int) -> JointCosts:
        """Of the joint of link ``i``."""
        screws = SCREWS if self.reading.zeros else replace(SCREWS, rows=SCREWS.columns)
        return ROTATION if self.free(i) else screws

    def moving(self, i: int) -> list[int]:
        """Joints from the root to link ``i`` with a moving parent."""
        return [j for j in self.tree.support(i) if self.tree.parents[j] != WORLD]

    def dofs(self, i: int) -> int:
        """Degrees of freedom that move link ``i``."""
        return sum(self.tree.joints[j].nv for j in self.tree.support(i))

    def pairs(self) -> list[tuple[int, int, int]]:
        """Pairs of end-effectors and their closest common ancestor, where that moves."""
        found = [(a, b, self.tree.closest_common_ancestor(a, b)) for a, b in combinations(self.ends, 2)]
        return [pair for pair in found if pair[2] != WORLD]


def articulated(graph: Graph) -> int:
    """Articulated inertias, and the base's inverse."""
    links = range(int(graph.floating), graph.tree.n_links)
    costs = [graph.costs(i) for i in links if graph.tree.parents[i] != WORLD]
    return ARTICULATED_JOINT * len(links) + sum(c.articulated + c.add for c in costs) + INVERSE * graph.floating


def efpa(graph: Graph) -> dict[str, int]:
    """Flops of EFPA by phase."""
    inward = outward = 0
    for end in graph.ends:
        own = [graph.costs(i) for i in graph.moving(end)]
        inward += sum(TO_ROWS + cost.rows for cost in own)
        outward += sum(cost.columns + TO_COLUMNS + ADD_JOINT for cost in own)
        outward += graph.floating * PRODUCT - ZERO_ROW * (ROTATION in own)
        outward += FRAME_SYMMETRIC if graph.reading.symmetric else FRAME
    return {
        "articulated inertias": articulated(graph),
        "propagators": inward,
        "own blocks": outward,
        "cross blocks": PRODUCT * len(graph.pairs()),
    }


def rjka(graph: Graph) -> dict[str, int]:
    """Flops of KJR by phase."""
    supporting = {i for end in graph.ends for i in graph.moving(end)}
    own = sum(graph.costs(i).congruence + 1 for i in supporting)
    steps: list[tuple[int, int]] = []  # Ω_{i,j} from Ω_{p(i),j}: first one end from the ancestor, then the other
    for one, other, meeting in graph.pairs():
        above = graph.tree.support(meeting)
        steps += [(i, meeting) for i in graph.tree.support(one) if i not in above]
        steps += [(i, one) for i in graph.tree.support(other) if i not in above]
    cross = sum(graph.costs(i).columns + TO_COLUMNS for i, _ in (set(steps) if graph.reading.shared else steps))
    return {
        "articulated inertias": articulated(graph),
        "own blocks": own + OWN_FRAME * len(graph.ends),
        "cross blocks": cross + PAIR_FRAME * len(graph.pairs()),
    }


def sfa(graph: Graph) -> dict[str, int]:
    """Flops of sparse factorisation by phase: ``H``, ``J``, ``H = Lᵀ L``, ``Y = J L⁻¹`` and ``Y Yᵀ``."""
    tree = graph.tree
    mass = factor = 0
    for i in range(tree.n_links):
        moving = graph.moving(i)
        mass += RIGID * bool(moving) + VECTOR * len(moving)
        if graph.reading.sparse_privileged:
            saved = (RIGID - RIGID_ROTATION) * graph.free(i) + (VECTOR - 12) * any(graph.free(j) for j in moving)
            mass -= saved
    for d in support_sizes(tree):
        factor += 1 + (d - 1) + d * (d - 1)  # root, quotients, d (d−1) / 2 times m+a
    ends = [graph.dofs(end) for end in graph.ends]
    common = [graph.dofs(meeting) for *_, meeting in graph.pairs()]
    return {
        "H": mass,
        # a joint: rotation 24m+12a, position 8m+6a, and their cross product 6m+3a; the base: p × R 18m+9a
        "J": sum(59 * len(graph.moving(end)) + 27 * graph.floating for end in graph.ends),
        "L": factor,
        "Y": sum(6 * d * d for d in ends),  # a row: d quotients, d (d−1) / 2 times m+a
        "Y Yᵀ": sum(21 * (2 * d - 1) for d in ends) + sum(36 * (2 * d - 1) for d in common),
    }


def support_sizes(tree: Tree) -> list[int]:
    """Degrees of freedom from the root to each, itself included."""
    sizes: list[int] = []
    for parent in tree.dof_parents:
        sizes.append(1 + (sizes[parent] if parent >= 0 else 0))
    return sizes


def zeros(graph: Graph) -> tuple[float, float]:
    """Shares of ``J`` and of ``H`` that are zero by the connectivity."""
    n = graph.tree.nv
    jacobian = sum(graph.dofs(end) for end in graph.ends) / (n * max(len(graph.ends), 1))
    return 1 - jacobian, 1 - (2 * sum(support_sizes(graph.tree)) - n) / n**2


# -- ASIMO ---------------------------------------------------------------------------------------------------------

HF = ("hand1", "hand2", "foot1", "foot2")
FINGERS = tuple(f"{f}{k}" for f in ("forefinger", "middle", "ring", "thumb") for k in (1, 2))
LONGER = ("arms of 10", "legs of 9", "12-DoF hands")


def asimo_variants() -> dict[str, tuple[Tree, tuple[str, ...]]]:
    """Robots and end-effectors of [EFPA] Fig. 6; how many joints longer limbs have, its text does not say."""
    return {
        "hands+feet": (asimo(), HF),
        "+head": (asimo(), (*HF, "head3")),
        "forefingers, thumbs, feet": (asimo(), (*FINGERS[:2], *FINGERS[-2:], *HF[2:])),
        "arms of 10": (asimo(arm_dofs=10), HF),
        "legs of 9": (asimo(leg_dofs=9), HF),
        "4 arms, 4 legs": (asimo(arms=4, legs=4), tuple(f"{e}{k}" for e in ("hand", "foot") for k in (1, 2, 3, 4))),
        "12-DoF hands": (asimo(hand_dofs=12), (*FINGERS, *HF[2:])),
        "on one foot": (asimo(fixed_foot=True), ("hand1", "hand2", "foot2")),
    }


def graph_of(tree: Tree, frames: Sequence[str]) -> Graph:
    """The graph of a tree whose end-effectors are on the links of these frames."""
    return Graph(tree, tuple(tree.placement(name).link for name in frames))


def shares(graph: Graph) -> tuple[float, float]:
    """Flops of KJR and of sparse factorisation over those of EFPA; the Jacobian is not counted."""
    own = sum(efpa(graph).values())
    return sum(rjka(graph).values()) / own, sum(flops for phase, flops in sfa(graph).items() if phase != "J") / own


READINGS = [
    Reading(child, zeros, *chosen)
    for child in range(3)
    for zeros in (True, False)
    for chosen in product((False, True), repeat=3)
]
"""All; the privileged child is the pelvis, the head or an arm. The first one is judged: EFPA uses every trick that the
paper names for it, sparse factorisation none; KJR computes the cross block of each pair "recursively from a common
ancestor" (§V-A), whence its O(N + d m²)."""


def fewest_ahead(robot: Callable[[int], Tree]) -> int:
    """Fewest joints of a limb with which EFPA needs fewer flops than sparse factorisation."""
    return next(n for n in range(6, 40) if shares(graph_of(robot(n), HF))[1] > 1)


def published(setup: Setup) -> Finding:
    """[EFPA] Figs. 5, 6 counted as the paper counts, in every reading."""
    graphs = {name: graph_of(*variant) for name, variant in asimo_variants().items()}
    found = {name: [shares(replace(graph, reading=r)) for r in READINGS] for name, graph in graphs.items()}
    said = []
    for name, every in found.items():
        kjr, sparse = (f"{own[0]:.2f}× ({min(own):.2f} … {max(own):.2f})" for own in zip(*every, strict=True))
        said.append(f"{name}: EFPA {sum(efpa(graphs[name]).values()):,}, KJR {kjr}, sparse {sparse}")
    base, four = found["hands+feet"], found["4 arms, 4 legs"]
    growth = [k4 / s4 / (k / s) - 1 for (k, s), (k4, s4) in zip(base, four, strict=True)]
    (in_J, in_H), in_H4 = zeros(graphs["hands+feet"]), zeros(graphs["4 arms, 4 legs"])[1]
    hands = shares(graph_of(asimo(hand_dofs=12), HF))[1]
    arms, legs = fewest_ahead(lambda n: asimo(arm_dofs=n)), fewest_ahead(lambda n: asimo(leg_dofs=n))
    said += [
        f"zeros: J {in_J:.1%}, H {in_H:.1%}, with 4 arms, 4 legs {in_H4:.1%} (paper: 67, 56, 73 %)",
        f"KJR over sparse {growth[0]:.0%} higher there ({min(growth):.0%} … {max(growth):.0%}; paper: over 50 %)",
        f"EFPA under sparse from arms of {arms} or legs of {legs} joints, and with 12-DoF hands where hands and feet "
        f"are the ends (sparse {hands:.2f}×)",
    ]
    parts = [
        all((every[0][0] > 1) != (name == "on one foot") for name, every in found.items()),
        abs(base[0][1] - 0.78) < 0.05,
        abs(four[0][1] - base[0][1]) < 0.05,
        all(found[name][0][1] > base[0][1] for name in LONGER),
        abs(in_J - 0.67) < 0.01 and round(100 * in_H) == 56 and round(100 * in_H4) == 73,
        growth[0] > 0.5,
    ]
    plain, together = (READINGS.index(r) for r in (Reading(zeros=False, sparse_privileged=True), Reading(shared=True)))
    said.append(
        f"sparse factorisation at {base[plain][1]:.0%} if it, too, uses the privileged child and EFPA does not skip "
        f"the zero column of 𝒳 L; KJR over sparse {growth[together]:.0%} higher if pairs share cross blocks"
    )
    flops = {
        name: {
            "efpa": sum(efpa(graph).values()),
            "kjr": sum(rjka(graph).values()),
            "sparse factorisation": sum(n for phase, n in sfa(graph).items() if phase != "J"),
        }
        for name, graph in graphs.items()
    }
    reason = "" if all(parts) else "the paper gives neither its costs nor these"
    return Finding("; ".join(said), verdict(parts), reason, {"ASIMO": bars(flops)})
