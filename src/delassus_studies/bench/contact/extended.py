"""Contact steps in extended precision, and central differences of them: what derivatives are compared with.

The program of a step is interpreted from the impulses of a solution nearby on, until what sweeps change is next to
nothing. States leave loops by themselves; those of all differences are computed side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import delassus as ds
from delassus.compiler.program.program import Program
from delassus.quantities.pipeline import make_program
from delassus.spatial.numpy_ops import NumpyOps
from delassus.spatial.rotations import Array
from delassus.spatial.trace.interpret import interpret

SWEEPS, SETTLED, SOLVED = 1000, 1e-18, 1e-14
"""Sweeps, residuals (m/s) at which they end, near the round-off of extended precision: what is left of them over the
width of differences is an error of these; and residuals below which a step is solved."""
MOST = 16_000_000
"""Numbers of a program that are held at once."""
COMPACT = 0.8
"""Part of states in a loop, below which those that have left it are taken out."""

WIDE = NumpyOps(np.longdouble)
Wide = NDArray[Any]
"""Array of numbers in extended precision, or of those that are made so."""

Direction = tuple[Mapping[int, Array], float]
"""Changes (n, k) of arguments by place, of configurations in tangents; and the width of their difference."""


def joint_by_joint(tree: ds.Tree, method: str, q: Wide, x: Wide) -> Wide:
    """``integrate`` or ``difference`` of joints in extended precision, at configurations (n, nq)."""
    out = []
    for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        given = x[:, sv if method == "integrate" else sq]
        found = getattr(joint.kind, method)(WIDE, [*q[:, sq].T], [*given.T])
        out += [np.broadcast_to(y, len(q)) for y in found]
    return np.stack(out, axis=1)


def _settled(program: Program, x: Wide) -> Wide:
    """Results (m, n) of a program at inputs (k, n), whose loops states leave by themselves."""
    values = np.concatenate([x, np.zeros((program.n_values, x.shape[1]), x.dtype)])
    for stage in program.before:
        if not stage.is_loop:
            for operands, targets in stage.runs(len(values)):
                (found,) = interpret(stage.graph, values[[*operands]].T)
                values[[*targets]] = found.T
            continue
        left, inner = np.arange(x.shape[1]), values
        for _ in range(stage.times):
            going = inner[stage.targets[-1]] == 0
            if not going.any():
                break
            if going.mean() < COMPACT:
                values[:, left] = inner
                left, inner = left[going], inner[:, going]
            (found,) = interpret(stage.graph, inner.T)
            inner[[*stage.targets]] = found.T
        values[:, left] = inner
    return np.concatenate(interpret(program.graph, values.T), axis=1).T


class Reference:
    """Steps in extended precision, from arguments of a kernel."""

    def __init__(self, kernel: ds.Kernel) -> None:
        options = replace(kernel.request.options, tolerance=SETTLED, sweeps=SWEEPS)
        self._program = make_program(replace(kernel.request, options=options), with_rcond=False)
        graphs = [*(stage.graph for stage in self._program.before), self._program.graph]
        self._tree, self._most = kernel.request.tree, max(1, MOST // max(len(graph.nodes()) for graph in graphs))

    def __call__(self, given: Sequence[Wide]) -> tuple[Wide, Wide, Array]:
        """Configurations and velocities after a step, and the largest residuals (m/s)."""
        wide = np.concatenate([x.astype(np.longdouble).reshape(len(x), -1) for x in given], axis=1).T
        parts = [_settled(self._program, wide[:, k : k + self._most]) for k in range(0, wide.shape[1], self._most)]
        flat = np.concatenate(parts, axis=1).T
        q, v, _, residuals = (flat[:, list(r.entries)] for r in self._program.results[:4])
        return q, v, residuals.max(axis=1).astype(float)

    def differences(self, given: Sequence[Array], directions: Sequence[Direction]) -> tuple[Array, Array, Array]:
        """Derivatives along k directions (k, n, 2 nv), what they change with widths (k, n), and residuals (n,)."""
        ends, n = list[list[Wide]](), len(given[0])
        for changes, step in directions:
            for s in (step, -step, 0.5 * step, -0.5 * step):
                moved = [x.astype(np.longdouble) for x in given]
                for place, along in changes.items():
                    at, change = moved[place], np.longdouble(s) * along.astype(np.longdouble).reshape(n, -1)
                    moved[place] = (
                        at + change.reshape(at.shape) if place else joint_by_joint(self._tree, "integrate", at, change)
                    )
                ends.append(moved)
        q, v, residuals = self([np.concatenate(x) for x in zip(*ends, strict=True)])
        (q1, q0), (v1, v0) = (np.moveaxis(x.reshape(-1, 2, n, x.shape[1]), 1, 0) for x in (q, v))
        turned = joint_by_joint(self._tree, "difference", *(x.reshape(-1, x.shape[2]) for x in (q0, q1)))
        steps = np.array([s for _, step in directions for s in (step, 0.5 * step)], np.longdouble)
        whole = np.concatenate([turned.reshape(v1.shape), v1 - v0], axis=2) / (2.0 * steps[:, None, None])
        coarse, fine = whole[::2], whole[1::2]
        moved_by = np.abs(fine - coarse).max(axis=2).astype(float)
        return (fine + (fine - coarse) / 3.0).astype(float), moved_by, residuals.reshape(-1, n).max(axis=0)
