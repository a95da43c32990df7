"""Changes of blocks of a scene alone, kind by kind, and what derivatives of its steps share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from delassus.contact.changes.contacts import supports_of
from delassus.contact.changes.record import StepRecord, record_of
from delassus.contact.collision import CollisionDetector
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.blocks import INFINITE, Blocks
from delassus.contact.sparse.stepper import BlockSteps
from delassus.errors import ConfigurationError
from delassus.model.inertia import parameters_of_inertia
from delassus.model.tree import Tree
from delassus.quantities.keywords import Passive
from delassus.solvers.islands.records import StepOptions
from delassus.spatial.rotations import Array


class BlockDiagonal(NamedTuple):
    """A matrix (n, n) of blocks, a batch (k, w, w) for those of each kind; or (n, number of blocks), of (k, w, 1)."""

    kinds: list[Array]

    def times(self, x: Array) -> Array:
        """The product with ``x`` (n, k)."""
        out, at = [x[:0]], 0
        for block in self.kinds:
            k, h, w = block.shape
            out.append((block @ x[at : at + k * w].reshape(k, w, x.shape[1])).reshape(k * h, x.shape[1]))
            at += k * w
        return np.concatenate(out)

    @property
    def T(self) -> BlockDiagonal:
        """The transpose."""
        return BlockDiagonal([np.swapaxes(x, 1, 2) for x in self.kinds])


class BlockChanges(NamedTuple):
    """Of all blocks alone: outputs of `free_step_changes`."""

    momentum_q: BlockDiagonal
    momentum_v: BlockDiagonal
    q_by_q: BlockDiagonal
    q_by_v: BlockDiagonal
    q_by_shift: BlockDiagonal
    q_by_time: BlockDiagonal
    v_by_v: BlockDiagonal
    v_by_shift: BlockDiagonal
    v_by_time: BlockDiagonal

    def pull_moves(self, q: Array, v: Array) -> tuple[Array, Array, Array, Array]:
        """What counts positions, velocities, shifts (n, k) and, of degrees of freedom, times, from their ends."""
        with_v = self.q_by_v.T.times(q) + self.v_by_v.T.times(v)
        with_shift = self.q_by_shift.T.times(q) + self.v_by_shift.T.times(v)
        return self.q_by_q.T.times(q), with_v, with_shift, self.q_by_time.T.times(q) + self.v_by_time.T.times(v)


MOMENTUM_Q, MOMENTUM_V = map(BlockChanges._fields.index, ("momentum_q", "momentum_v"))


class Moves(NamedTuple):
    """How positions move in a step: by ``velocity`` (n,) over ``times`` of blocks, and by ``shift`` (n,) besides."""

    velocity: Array
    times: Array
    shift: Array


class InertialForces(NamedTuple):
    """Forces that masses take to move so, at velocities and accelerations (n,), by ``weights`` (n, k).

    Those of gravity are among them where it ``acts``.
    """

    v: Array
    a: Array
    weights: Array
    acts: bool = False


class MomentaOfProducts:
    """What momenta of a step from ``v`` that gains velocities change by, with velocity products of its mean velocity.

    See `delassus.algorithms.contact.changes.products`: stages are what is gained, and what of it has products with
    ``v``; ``∂r(v⁺ − v, y₂) − Z (∂r(y₂, y₁) − Z ∂r(y₁, 0))``.
    """

    def __init__(
        self, scene: SceneChanges, record: StepRecord, v: Array, gained: Array, inverse: BlockDiagonal
    ) -> None:  # fmt: skip
        first, second = record.gains
        self.stages = [(gained, second), (second, first), (first, 0.0 * first)]
        self._scene, self._record, self._v, self._inverse = scene, record, v, inverse
        found = [[*zip(*scene.product_changes(record, v, *stage), strict=True)] for stage in self.stages]
        self.with_q, self.with_v = ([BlockDiagonal([*x[k]]) for x in found] for k in range(2))
        self._products = BlockDiagonal([*found[-1][2]])

    def of_step(self, free: BlockChanges) -> BlockChanges:
        """Changes of blocks alone by products of ``v``, with those of the whole step where there are products."""
        q, v = [*free.momentum_q.kinds], [*free.momentum_v.kinds]
        for number, kind in enumerate(self._scene.blocks.kinds):
            if kind.has_products:
                q[number], v[number] = self.with_q[0].kinds[number], v[number] + self.with_v[0].kinds[number]
                v[number] = v[number] - self.with_v[-1].kinds[number]
        return free._replace(momentum_q=BlockDiagonal(q), momentum_v=BlockDiagonal(v))

    def earlier(self, weights: Array) -> Iterator[tuple[int, Array]]:
        """Numbers of stages but that of the whole step, and what counts their momenta (n, k)."""
        for number in range(1, len(self.stages)):
            weights = -self._inverse.times(self._products.T.times(weights))
            yield number, weights

    def inertial_forces(self, number: int, weights: Array) -> list[InertialForces]:
        """What masses do in a stage, by weights of momentum (n, k)."""
        dt, (gained, further) = self._scene.options.dt, self.stages[number]
        mean, less = self._v + 0.5 * further, 0.5 * further
        in_motion = self._scene.joint_accelerations(self._record, mean, mean + gained)
        taken_off = self._scene.joint_accelerations(self._record, less, less)
        return [InertialForces(*in_motion, -dt * weights, True), InertialForces(*taken_off, dt * weights)]


def by_masses(tree: Tree) -> Array:
    """Rates (n, 10) of what payloads add to links, in axes of bodies, with masses whose radii of inertia stay.

    Zero of links without mass.
    """
    own = np.array([parameters_of_inertia(H) for H in tree.inertias])
    return own / np.where(own[:, :1] > 0.0, own[:, :1], np.inf)


class SceneChanges:
    """Derivatives of recorded steps of a scene."""

    def __init__(self, blocks: Blocks, detector: CollisionDetector, options: StepOptions, passive: Passive) -> None:
        self.blocks, self.detector, self.options, self._passive = blocks, detector, options, passive
        self.supports = supports_of(blocks)
        self._kernels: dict[tuple[int, str], Any] = {}

    def kernel(self, kind: int, what: str) -> Any:
        """Kernel of a kind of blocks."""
        key = kind, what
        if key not in self._kernels:
            self._kernels[key] = self.blocks.kinds[kind].compile(what, self._passive)
        return self._kernels[key]

    def recorded(self, steps: BlockSteps) -> StepRecord:
        """The last step.

        Raises
        ------
        ConfigurationError
            There is none.
        """
        record = record_of(steps)
        if record is None:
            raise ConfigurationError("simulator", "a step to differentiate", "none yet", "Call step first.")
        return record

    def block_changes(self, record: StepRecord, v: Array, after: Array, moves: Moves | None = None) -> BlockChanges:
        """Changes of all blocks alone, from the velocities ``v`` after impacts on to those ``after`` the step.

        Their ``moves`` are by these and by the shift of the step, if not given.
        """
        found, block = list[Any](), 0
        at = (record.correction.shift,) if moves is None else (moves.shift, moves.velocity)
        for number, q, of_state in self.batches(record.q, v, after, *at):
            given = [self.blocks.inertias] if self.blocks.kinds[number].is_free else []
            kernel = self.kernel(number, "free_step_changes")
            found.append(kernel(q, of_state[0], of_state[1], self.options.dt, of_state[2], *given))
            if moves is not None:
                times = moves.times[block : block + len(q)]
                moved = kernel(q, of_state[0], of_state[3], times, of_state[2], *given)
                found[-1] = [*found[-1][: MOMENTUM_V + 1], *moved[MOMENTUM_V + 1 :]]
            block += len(q)
            found[-1] = [x if x.ndim == 3 else x[..., None] for x in found[-1]]
            if given and len(self.blocks.moved):
                found[-1] = list(map(np.array, found[-1]))
                found[-1][MOMENTUM_Q][self.blocks.moved] = 0.0
                found[-1][MOMENTUM_V][self.blocks.moved] = -INFINITE * np.eye(6)
        return BlockChanges(*(BlockDiagonal([x[i] for x in found]) for i in range(len(BlockChanges._fields))))

    def product_changes(self, record: StepRecord, v: Array, gained: Array, further: Array) -> Iterator[list[Array]]:
        """`product_changes` of blocks of each kind that has velocity products, and no loops; zero of others."""
        for kind, (number, q, of_state) in zip(
            self.blocks.kinds, self.batches(record.q, v, gained, further), strict=True
        ):
            if kind.has_products:
                yield list(self.kernel(number, "product_changes")(q, *of_state, self.options.dt))
            else:
                yield [np.zeros((len(q), kind.tree.nv, kind.tree.nv))] * 3

    def batches(self, q: Array, *of_dofs: Array) -> Iterator[tuple[int, Array, list[Array]]]:
        """Of each kind its number, configurations (k, nq) and parts (k, nv) of arrays of degrees of freedom."""
        at = dof = 0
        for number, kind in enumerate(self.blocks.kinds):
            k, tree = len(kind.links), kind.tree
            end, stop = at + k * tree.nq, dof + k * tree.nv
            parts = [x[dof:stop].reshape(k, tree.nv, *x.shape[1:]) for x in of_dofs]
            yield number, q[at:end].reshape(k, -1), parts
            at, dof = end, stop

    def batched(self, x: Array) -> list[Array]:
        """Blocks of each kind of what is laid out as ``bodies.mass``."""
        out, at = list[Array](), 0
        for kind in self.blocks.kinds:
            k, w = len(kind.links), kind.tree.nv
            out.append(x[at : at + k * w * w].reshape(k, w, w))
            at += k * w * w
        return out

    def inertia_changes(self, record: StepRecord, x: Array) -> BlockDiagonal:
        """Changes of ``M x``; those of free bodies have none, and of blocks with loops there are none here."""
        out = list[Array]()
        for number, q, (own,) in self.batches(record.q, x):
            if self.blocks.kinds[number].is_free or self.blocks.kinds[number].loops or not own.any():
                out.append(np.zeros((*own.shape, own.shape[1])))
            else:
                out.append(self.kernel(number, "inertia_changes")(q, own, own[:, :0])[0])
        return BlockDiagonal(out)

    def joint_accelerations(self, record: StepRecord, v: Array, after: Array) -> tuple[Array, Array]:
        """Velocities whose products act, and accelerations of joints, of the step from ``v`` to ``after``."""
        turning, out = v.copy(), (after - v) / self.options.dt
        for number, _, (own, change) in self.batches(record.q, turning, out):
            tree = self.blocks.kinds[number].tree
            for link, (joint, at) in enumerate(zip(tree.joints, tree.v_slices, strict=True)):
                if tree.is_free_body(link):  # its positions turn it by its momentum
                    own[:, at] = 0.0
                products: Any = joint.kind.velocity_product(list(own[:, at].T))
                for k, product in enumerate(products, at.start):
                    change[:, k] -= product
        return turning, out

    def with_masses(self, record: StepRecord, forces: Sequence[InertialForces], to: Array) -> None:
        """Add to ``to`` (n_links, k) what masses of links of robots, whose radii of inertia stay, do by forces."""
        link = 0
        for number, kind in enumerate(self.blocks.kinds):
            tree, n, begin = kind.tree, len(kind.links), link
            link += kind.links.size
            if kind.is_free:
                continue
            kernel = self.kernel(number, "inertial_forces")
            own = to[begin:link].reshape(n, len(tree.inertias), -1)
            none = np.zeros((1, 1, 10))
            for v, a, weights, acts in forces:
                if not weights.any():
                    continue
                parts = [x for i, _, x in self.batches(record.q, v, a, weights) if i == number]
                q = next(x for i, x, _ in self.batches(record.q) if i == number)[:, None]
                by = np.swapaxes(parts[0][2].reshape(n, tree.nv, -1), 1, 2)
                found = kernel(q, parts[0][0][:, None], parts[0][1][:, None], *[none] * len(tree.inertias), by)[3:]
                if not acts:
                    still = np.zeros((n, 1, tree.nv))
                    at_rest = kernel(q, still, still, *[none] * len(tree.inertias), by)[3:]
                    found = [x - y for x, y in zip(found, at_rest, strict=True)]
                for i, (of_link, rates) in enumerate(zip(found, by_masses(tree), strict=True)):
                    own[:, i] += of_link @ rates

    def islands(self, record: StepRecord) -> list[Indices]:
        """Blocks of each island."""
        blocks = self.blocks
        tree, of = blocks.scene.tree, blocks.of_links.block
        ties = [*blocks.ties, *record.contacts.links.tolist()]
        return sorted((np.unique(of[links]) for links in tree.blocks(ties)), key=lambda own: int(own[0]))
