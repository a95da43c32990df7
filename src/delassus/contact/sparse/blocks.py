"""A scene as blocks of bodies that no joint and no loop ties, alike ones evaluated by one kernel as lanes.

Every robot and every free body is a block; loops between robots make one block of them. Blocks of one kind have equal
trees but for their names; the kind is compiled once, and called with all of them as a batch. Bodies that only a free
joint carries, without springs and damping, need no kernel at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from delassus.algorithms.contact.mean_products import has_products
from delassus.constraints import Constraint, bounded_joints
from delassus.constraints.joint_rows import BoundedJoint
from delassus.constraints.spring import AnySpring, has_limits
from delassus.contact.filters import moved_links
from delassus.contact.scene import Scene
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.records import Joints, Links
from delassus.contact.sparse.springs import Line, Pull, pulls_of_joints, springs_of, stiff_joints, without_springs
from delassus.errors import ModelError
from delassus.model.edit.combine import part_of
from delassus.model.edit.massless import require_inertia
from delassus.model.kinematics import usual_inertias
from delassus.model.mechanisms import free_body
from delassus.model.topology import Placement
from delassus.model.tree import WORLD, Tree
from delassus.quantities.keywords import Passive
from delassus.runtime.compile import compile_at_once as compile_kernel
from delassus.runtime.kernel import Kernel
from delassus.solvers.islands.records import Bodies

MOTION_OF_BLOCKS = ("poses", "twists", "M", "qdd", "J", "errors", "mobilities")
"""Outputs of `joint_space_motion` that contact dynamics reads."""

INFINITE = 1e30
"""Mass (kg, kg m²) of a body that the user moves: what contacts add to its block of a Hessian is round-off of it."""

Loop = tuple[Constraint, int]
"""A loop, and its number among those of the scene."""


class BodyGroup:
    """Blocks with equal trees.

    Attributes
    ----------
    tree : Tree
    loops : tuple of Constraint
        Those of the tree's blocks, of which there is one where there are loops.
    loop_numbers : list of int
        Their numbers among the loops of the scene.
    links : (k, n) array of int
        Links of the scene of each block.
    is_free : bool
        Whether it is a body on its own.
    springs : tuple of SpringDamper and Bushing
        Those of the tree's blocks, as loops.
    smooth_tree : Tree
        That of smooth motion: without joints' springs that steps of ``dt`` take implicitly.
    has_products : bool
        Whether velocity products of the mean velocity of a step act, see `mean_products`.
    """

    def __init__(
        self, tree: Tree, loops: Sequence[Loop], links: Indices, is_free: bool, springs: Sequence[AnySpring] = (),
        dt: float = 0.0,
    ) -> None:  # fmt: skip
        self.tree, self.links, self.is_free, self.springs = tree, links, is_free, tuple(springs)
        self.smooth_tree = without_springs(tree, stiff_joints(tree, dt)) if loops else tree
        self.has_products = not is_free and not loops and has_products(tree, range(tree.n_links))
        self.loops, self.loop_numbers = tuple(c for c, _ in loops), [number for _, number in loops]

    def compile(self, what: str, passive: Passive = "none") -> Kernel:
        """Kernel of the tree; those of free bodies take their inertias, as payloads."""
        if self.is_free:
            body = replace(free_body(1.0, np.ones(3)), inertias=np.zeros((1, 6, 6)), gravity=self.tree.gravity)
            return compile_kernel(body, (), what, payloads=body.link_names)
        if what in ("position_update", "bias_force_change", "constraint_errors", "inertia_changes"):
            return compile_kernel(self.tree, self.loops, what)
        if what == "inertial_forces":  # from weights of joint forces to those of what is added to inertias
            tree, added = self._with_added_inertias()
            return compile_kernel(tree, (), "inverse_dynamics", payloads=added, passive="none").derivative("vjp")
        if what == "smooth_tangents":
            return compile_kernel(self.smooth_tree, self.loops, "smooth_motion", passive=passive).derivative("jvp")
        if what == "smooth_tangents_of_inertias":
            tree, added = self._with_added_inertias()
            return compile_kernel(tree, self.loops, "smooth_motion", payloads=added, passive=passive).derivative("jvp")
        if what == "joint_space_motion":
            rows = (*self.loops, *self.springs)
            return compile_kernel(self.tree, rows, what, outputs=MOTION_OF_BLOCKS, passive=passive)
        if what in ("smooth_motion", "smooth_energies"):
            return compile_kernel(self.smooth_tree, self.loops, what.replace("smooth_e", "e"), passive=passive)
        if what == "spring_changes":
            return compile_kernel(self.tree, self.springs, "inertia_changes")
        return compile_kernel(self.tree, self.loops, what, passive=passive)

    def _with_added_inertias(self) -> tuple[Tree, list[str]]:
        """The tree, and names of payloads in the axes of the bodies, one for each link."""
        names = [f"added to {name}" for name in self.tree.link_names]
        own = {name: Placement(k, np.eye(3), np.zeros(3)) for k, name in enumerate(names)}
        return replace(self.tree, frames={**self.tree.frames, **own}), names


def _links_of(tree: Tree, pull: Pull) -> list[int]:
    """Links whose joints a spring acts on."""
    return [i for i, at in enumerate(tree.v_slices) if any(at.start <= dof < at.stop for dof in pull.ratios)]


def body_groups(scene: Scene, passive: Passive, blocks: list[list[int]], dt: float) -> list[BodyGroup]:
    """Blocks of a scene, given as links, by kind, in the order of their first links, free bodies first."""
    tree = scene.tree
    block_of = {i: k for k, links in enumerate(blocks) for i in links}
    tied: dict[int, list[Loop]] = {}
    for number, loop in enumerate(scene.loops):
        carrier = next((i for i in loop.carriers(tree) if i != WORLD), 0)  # one on the world alone is on any block
        tied.setdefault(block_of[carrier], []).append((loop, number))

    pulling: dict[int, list[AnySpring]] = {}
    for spring in scene.springs:
        pulling.setdefault(block_of[spring.carriers(tree)[0]], []).append(spring)

    made: dict[object, tuple[Tree, list[list[int]]]] = {}
    kinds, free = list[BodyGroup](), list[list[int]]()
    moved = moved_links(scene)
    for k, links in enumerate(blocks):
        loops, springs = tied.get(k, []), pulling.get(k, [])
        own = part_of(tree, links, named=bool(loops or springs))
        if not (loops or springs) and (links[0] in moved or _is_free(own, passive)):
            free.append(links)
        elif loops or springs:
            kinds.append(BodyGroup(own, loops, np.array([links]), False, springs, dt))
        else:
            made.setdefault(own.fingerprint, (own, []))[1].append(links)
    kinds += [BodyGroup(own, (), np.array(links), False) for own, links in made.values()]
    if free:
        kinds.insert(0, BodyGroup(part_of(tree, free[0], named=False), (), np.array(free), True))
    return kinds


def _is_free(tree: Tree, passive: Passive) -> bool:
    """Whether a tree is a body that only a free joint carries, on which gravity and contacts act alone."""
    joint = tree.joints[0]
    bare = not joint.position.any() and np.array_equal(joint.rotation, np.eye(3))
    if passive == "model":
        bare = bare and not (joint.damping.any() or joint.stiffness.any() or tree.gravity_compensation)
    return tree.is_free_body(0) and bare


class Blocks:
    """The blocks of a scene, with the arrays that compiled functions read and write.

    Degrees of freedom, coordinates and links of the blocks are in an order of their own: kind by kind, block by block.

    Attributes
    ----------
    kinds : list of Kind
    dofs, coordinates, links : arrays of int
        Of the scene, in the order of the blocks.
    bodies : Bodies
    of_links : Links
    mass, centre, inertias : (k), (k, 3) and (k, 10) arrays
        Of free bodies: kg, m, and the parameters of payloads.
    moved : array of int
        Free bodies that the user moves.
    joints : Joints
    springs : Springs
    ties : list of lists of int
        Links that loops, or servos on several joints, tie to one another.
    loops : (k, 4) array of int
        Of each block with loops: its number, how many rows they have, where these begin in ``J``, and among all rows.
    n_rows : int
        Rows of all loops and springs.
    order_of_loops, ends_of_loops : list and array of int
        Numbers among the scene's loops of those of the blocks, −1 of springs, and where their rows end among all rows.
    """

    def __init__(self, scene: Scene, passive: Passive, limits: bool, dt: float, servos: Sequence[Pull] = ()) -> None:
        tree = scene.tree
        require_inertia(scene.tree)
        self.ties = [
            *(loop.carriers(tree) for loop in (*scene.loops, *scene.springs)),
            *(_links_of(tree, pull) for pull in servos),
        ]
        self.scene, self.kinds = scene, body_groups(scene, passive, tree.blocks(self.ties), dt)
        blocks = [links for kind in self.kinds for links in kind.links]
        of = [int(i) for links in blocks for i in links]
        self.links = np.array(of, np.int64)
        self.dofs = _joined([np.arange(tree.v_slices[i].start, tree.v_slices[i].stop) for i in of])
        self.coordinates = _joined([np.arange(tree.q_slices[i].start, tree.q_slices[i].stop) for i in of])
        sizes = np.array([sum(tree.joints[i].nv for i in links) for links in blocks], np.int64)
        first = np.concatenate([[0], np.cumsum(sizes)])
        at = np.cumsum(sizes**2) - sizes**2
        total = int((sizes**2).sum())
        widths = np.array([sum(tree.joints[i].nq for i in links) for links in blocks], np.int64)
        block_of, place = np.zeros(tree.n_links, np.int64), np.zeros(tree.nv, np.int64)
        for b, links in enumerate(blocks):
            block_of[links] = b
        place[self.dofs], in_q = np.arange(tree.nv), np.zeros(tree.nq, np.int64)
        in_q[self.coordinates] = np.arange(tree.nq)
        slot = np.zeros(tree.n_links, np.int64)
        slot[self.links] = np.arange(tree.n_links)
        self.of_links = Links(
            np.array(tree.parents, np.int64),
            slot,
            block_of,
            np.array([*(s.start for s in tree.v_slices), tree.nv], np.int64),
            np.array([a for j in tree.joints for a in j.motion_axes], np.int64),
            np.repeat(np.array([j.pitch for j in tree.joints], np.float64), [j.nv for j in tree.joints]),
            place,
            np.concatenate([[0], np.cumsum(widths)]).astype(np.int64),
        )
        self.joints = self._joints(bounded_joints(tree, limits, passive == "model"))
        described, lines, b, rows, J = [], list[Line](), 0, 0, 0
        loop_rows, loops_at = np.zeros(len(blocks), np.int64), np.zeros(len(blocks), np.int64)
        for kind in self.kinds:
            m = sum(c.size for c in kind.loops)
            if m:
                described.append([b, m, J, rows])
                loop_rows[b], loops_at[b] = m, J
            k = m
            for x in ((*x, has_limits(c)) for c in kind.springs for x in c.springs(kind.tree)):
                lines.append(Line(b, J + k * kind.tree.nv, rows + k, *x))
                k += 1
            b, rows, J = b + len(kind.links), rows + k, J + k * kind.tree.nv
        self.n_rows = rows
        self.loops = np.array(described, np.int64).reshape(-1, 4)
        mass, M, L, inverse, Q = (np.zeros(n) for n in (total, total, total, total, J))
        turns = np.array([a >= 3 for j in tree.joints for a in j.motion_axes], np.int64)[self.dofs]
        usual = usual_inertias(tree)[self.dofs]
        one = [not k.loops and k.tree.n_links == 1 and k.tree.is_free_body(0) for k in self.kinds for _ in k.links]
        alone = np.where(np.array(one, bool), np.cumsum(widths) - widths, -1)
        self.bodies = Bodies(first, turns, usual, at, mass, M, L, inverse, loop_rows, loops_at, Q, alone)
        self._describe_free(tree)
        tied = {i for b, links in enumerate(blocks) if loop_rows[b] for i in links}
        of_joints = pulls_of_joints(tree, tied, dt) if passive == "model" else []
        on = np.repeat(np.arange(len(blocks)), sizes)
        self.springs = springs_of(self.bodies, on, place, in_q, of_joints, lines, servos)
        ordered = [c for kind in self.kinds for c in (*kind.loops, *kind.springs)]
        self.order_of_loops = [k for kind in self.kinds for k in (*kind.loop_numbers, *[-1] * len(kind.springs))]
        self.ends_of_loops = np.cumsum([c.size for c in ordered]).astype(np.int64)

    def joint_of(self, dof: int) -> str:
        """Name of the joint that has a degree of freedom of the blocks."""
        return self.scene.tree.joint_names[self.link_of(dof)]

    def link_of(self, dof: int) -> int:
        """Link whose joint has a degree of freedom of the blocks."""
        return int(np.searchsorted(self.of_links.first_dof, self.dofs[dof], side="right")) - 1

    def _joints(self, rows: Sequence[BoundedJoint]) -> Joints:
        """Joints with limits or friction, in the order of the scene."""
        tree, of_links = self.scene.tree, self.of_links
        place, coordinates = np.zeros(tree.nq, np.int64), np.zeros(tree.nv, np.int64)
        place[self.coordinates] = np.arange(tree.nq)
        for joint, in_q, in_v in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
            if joint.nq == joint.nv:
                coordinates[in_v] = place[in_q]
        dofs = np.array([row.dof for row in rows], np.int64)
        blocks = of_links.block[np.searchsorted(of_links.first_dof, dofs, side="right") - 1]
        lower, upper, forces = (np.array([getattr(row, x) for row in rows]) for x in ("lower", "upper", "friction"))
        over_step = np.zeros((2, 2, tree.nv))
        return Joints(of_links.place[dofs], coordinates[dofs], blocks, lower, upper, forces, *over_step)

    def _describe_free(self, tree: Tree) -> None:
        free = self.kinds[0].links[:, 0] if self.kinds and self.kinds[0].is_free else np.zeros(0, np.int64)
        self.moved = np.flatnonzero(np.isin(free, moved_links(self.scene)))
        H = tree.inertias[free]
        H[self.moved] = np.eye(6)
        self.mass = np.ascontiguousarray(H[:, 0, 0])
        # the upper right block of a spatial inertia is −m ĉ, entry (0, 4) of which is m c_z
        self.centre = np.stack([H[:, 1, 5], H[:, 2, 3], H[:, 0, 4]], axis=1) / self.mass[:, None]
        c = self.centre
        squares = np.eye(3) * (c * c).sum(axis=1)[:, None, None] - c[:, :, None] * c[:, None, :]
        inertia = H[:, 3:, 3:] - self.mass[:, None, None] * squares
        least = np.linalg.eigvalsh(inertia)[:, 0] if len(free) else np.zeros(0)
        bad = least <= 1e-12 * np.abs(inertia).max(axis=(1, 2), initial=0.0)
        if np.any(bad):
            raise _no_inertia(tree.link_names[int(free[np.argmax(bad)])])
        second = [H[:, 3 + i, 3 + j] for i in range(3) for j in range(i + 1)]
        self.inertias = np.column_stack([self.mass, self.mass[:, None] * c, *second])
        n = 36 * len(free)
        self.bodies.mass[:n] = self.bodies.M[:n] = H.ravel()
        self.bodies.inverse[:n] = np.linalg.inv(H).ravel()
        L, k = (np.linalg.cholesky(H) if len(free) else H), np.arange(6)
        L[:, k, k] = 1.0 / L[:, k, k]
        self.bodies.L[:n] = np.swapaxes(L, 1, 2).ravel()  # by columns
        for b in self.moved:
            at = slice(36 * b, 36 * b + 36)  # no energy, no response; Newton's method divides by the mass
            self.mass[b] = self.bodies.mass[at] = self.bodies.inverse[at] = self.bodies.L[at] = 0.0
            self.bodies.M[at] = INFINITE * np.eye(6).ravel()


def _no_inertia(link: str) -> ModelError:
    return ModelError(f"link {link!r}", "a body that has inertia along its joint", "none", "Give it mass.")


def _joined(parts: Sequence[Indices]) -> Indices:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)
