"""Changes of blocks of a scene alone, kind by kind, and what derivatives of its steps share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from delassus.contact.changes.contacts import tree_of
from delassus.contact.changes.record import StepRecord, record_of
from delassus.contact.collision import CollisionDetector
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.blocks import Blocks
from delassus.contact.sparse.records import Options
from delassus.contact.sparse.stepper import BlockSteps
from delassus.errors import ConfigurationError
from delassus.quantities.options import Passive
from delassus.spatial.rotations import Array


class BlockDiagonal(NamedTuple):
    """A matrix (n, n) of blocks, a batch (k, w, w) for those of each kind."""

    kinds: list[Array]

    def times(self, x: Array) -> Array:
        """The product with ``x`` (n, k)."""
        out, at = np.empty_like(x), 0
        for block in self.kinds:
            end = at + block.shape[0] * block.shape[1]
            out[at:end] = (block @ x[at:end].reshape(*block.shape[:2], -1)).reshape(end - at, -1)
            at = end
        return out

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
    v_by_v: BlockDiagonal
    v_by_shift: BlockDiagonal


class SceneChanges:
    """Derivatives of recorded steps of a scene."""

    def __init__(self, blocks: Blocks, detector: CollisionDetector, options: Options, passive: Passive) -> None:
        self.blocks, self.detector, self.options, self._passive = blocks, detector, options, passive
        self.tree = tree_of(blocks)
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
            There is none, or the scene has loops.
        """
        loops, record = self.blocks.scene.loops, record_of(steps)
        if loops:
            advice = "Compile 'contact_step', and take its derivative('jvp')."
            raise ConfigurationError("scene", "no loops", f"{len(loops)}", advice)
        if record is None:
            raise ConfigurationError("simulator", "a step to differentiate", "none yet", "Call step first.")
        return record

    def block_changes(self, record: StepRecord, v: Array) -> BlockChanges:
        """Changes of all blocks alone, from the velocities ``v`` after impacts on."""
        after, shift, found = record.problems[-1].after, record.correction.shift, list[Any]()
        for number, q, of_state in self.batches(record.q, v, after, shift):
            given = [self.blocks.inertias] if self.blocks.kinds[number].is_free else []
            kernel = self.kernel(number, "free_step_changes")
            found.append(kernel(q, of_state[0], of_state[1], self.options.dt, of_state[2], *given))
        return BlockChanges(*(BlockDiagonal([x[i] for x in found]) for i in range(len(BlockChanges._fields))))

    def batches(self, q: Array, *of_dofs: Array) -> Iterator[tuple[int, Array, list[Array]]]:
        """Of each kind its number, configurations (k, nq) and parts (k, nv) of arrays of degrees of freedom."""
        at = dof = 0
        for number, kind in enumerate(self.blocks.kinds):
            k, tree = len(kind.links), kind.tree
            end, stop = at + k * tree.nq, dof + k * tree.nv
            yield number, q[at:end].reshape(k, -1), [x[dof:stop].reshape(k, -1) for x in of_dofs]
            at, dof = end, stop

    def inertia_changes(self, record: StepRecord, x: Array) -> BlockDiagonal:
        """Changes of ``M x``; those of free bodies have none."""
        out = list[Array]()
        for number, q, (own,) in self.batches(record.q, x):
            none = self.blocks.kinds[number].is_free or not own.any()
            out.append(np.zeros((*own.shape, own.shape[1])) if none else self.kernel(number, "inertia_changes")(q, own))
        return BlockDiagonal(out)

    def islands(self, record: StepRecord) -> list[Indices]:
        """Blocks of each island."""
        n = len(self.blocks.bodies.at)
        root = list(range(n))

        def find(i: int) -> int:
            while root[i] != i:
                root[i] = root[root[i]]
                i = root[i]
            return i

        of = self.blocks.of_links.block
        for a, b in record.contacts.links.tolist():
            if a >= 0 and b >= 0:
                i, j = find(int(of[a])), find(int(of[b]))
                root[max(i, j)] = min(i, j)
        members: dict[int, list[int]] = {}
        for i in range(n):
            members.setdefault(find(i), []).append(i)
        return [np.array(x) for x in members.values()]
