"""Derivatives of problems of ContactBench beside differences: ``python benchmarks/contact_bench.py FOLDER``.

FOLDER holds ``solvers-derivatives.cpp`` of ContactBench (INRIA 2024, BSD 2-Clause), whose matrices are read from its
text, and problems as arrays, ``*.npz``. Each is solved for the impulses of Coulomb's law; of a problem ``u = W p + g``
with redundant contacts, ``W = Y Yᵀ``, derivatives are those along free velocities ``Y δ``, as of a robot that makes
them. Compared are those of the equations of the law and those of modes, as contact steps have them, with central
differences of solutions, where all stick with zero; each problem again with a tenth of its friction, with which what
sticks slides.
"""

import argparse
import re
from functools import cache
from pathlib import Path

import numpy as np

from delassus.algorithms.contact.modes import image_by_modes, point_mode
from delassus.algorithms.contact.problem import PointLaw, StepProblem
from delassus.compiler.passes.differentiate import DifferentiableTraceOps
from delassus.contact import ConeProblem, nsgs
from delassus.spatial.trace.interpret import interpret

STEP, SMOOTH = 1e-5, 1e-5
"""Width of differences, over the size of free velocities or of friction; and what they may depend on it."""
PRINTED, STORED = 1e-7, 1e-12
"""Part of the largest eigenvalue of ``W`` below which one is none, of numbers of nine digits and of all."""


def numbers(text):
    """All numbers of a text."""
    return [float(x) for x in re.findall(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", text)]


def problems(folder):
    """Names, ``W``, ``g``, friction, and how small eigenvalues are none, of all problems."""
    for text in re.split(r"BOOST_AUTO_TEST_CASE", (folder / "solvers-derivatives.cpp").read_text())[1:]:
        size = re.search(r"int nc = (\d+);", text)
        matrices = re.search(r"A << (.*?);", text, re.S), re.search(r"b << (.*?);", text, re.S)
        friction = re.search(r"mus = \{(.*?)\}", text, re.S)
        if size and all(matrices) and friction:
            n = 3 * int(size[1])
            W, g = (np.array(numbers(x[1])) for x in matrices)
            yield re.match(r"\((\w+)\)", text)[1], W.reshape(n, n), g, np.array(numbers(friction[1])), PRINTED
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            yield path.stem, arrays["G"], arrays["g"].ravel(), arrays["mus"], STORED


@cache
def graph_of(n, rank, by_modes):
    """Program of the Jacobian of ``u`` (3n) with ``y`` and friction.

    Its inputs are ``Y`` (3n × rank), ``y``, friction, what of ``g`` is not ``Y y``, and impulses.
    """
    ops = DifferentiableTraceOps()
    Y, y, mu, rest, p = ops.unknown(3 * n, rank), *(ops.unknown(k, 1) for k in (rank, n, 3 * n, 3 * n))
    column = lambda a: [x for (x,) in ops.entries(a)]  # noqa: E731
    G = ops.product(Y, ops.transpose(Y), symmetric=True)
    free = column(Y @ y + rest)
    rows = ops.entries(G)
    laws = [PointLaw(3 * k, x, 0.0) for k, x in enumerate(column(mu))]
    problem = StepProblem(ops, rows, free, [rows[k][k] for k in range(3 * n)], laws, [], False)

    def image(problem, p):
        u = [problem.velocity(row, p) for row in range(len(p))]
        modes = [point_mode(problem, x, p[x.row : x.row + 3], u[x.row : x.row + 3], 1.0, None) for x in problem.points]
        return image_by_modes(problem, p, modes, [], 1.0)

    p = problem.implicit(column(p), image if by_modes else None)
    u = [problem.velocity(row, p) for row in range(3 * n)]
    given = [*column(y), *column(mu)]
    change = ops.tangents(u, given, ops.eye(len(given)))
    return ops.graph([ops.nodes(change)])


def solved(W, g, mu, start=None, tolerance=1e-8):
    """Impulses and velocities."""
    start = None if start is None else start.reshape(-1, 3)
    p = nsgs(ConeProblem(W, g, mu), start, tolerance=tolerance).values.ravel()
    return p, W @ p + g


def compare(W, g, mu, small):
    """Modes, largest errors of both over the largest entry, and number of columns compared of all."""
    W, g, n = 0.5 * (W + W.T) / np.abs(W).max(), g / np.abs(g).max(), len(mu)  # in units of their own
    eigenvalues, axes = np.linalg.eigh(W)
    keep = eigenvalues > small * eigenvalues[-1]
    Y = axes[:, keep] * np.sqrt(eigenvalues[keep])
    W = Y @ Y.T
    p, _ = solved(W, g, mu)
    tolerance = max(1e-13, np.finfo(float).eps * (np.abs(W) @ np.abs(p)).max())
    p, u = solved(W, g, mu, p, tolerance)
    speed, pressed = np.hypot(u[0::3], u[1::3]), p[2::3] > 1e-9 * np.abs(p).max()
    slides = pressed & (speed > max(1e-9, 10.0 * tolerance))
    modes = f"{(pressed & ~slides).sum()} stick, {slides.sum()} slide, {(~pressed).sum()} open"
    wanted, jumps = np.zeros((3 * n, keep.sum() + n)), np.zeros(keep.sum() + n)
    if slides.any() or not pressed.all():  # else nothing moves, whatever changes
        for k in range(len(jumps)):
            of_y, of_mu = np.split(np.eye(len(jumps))[k], [keep.sum()])
            width = STEP / (np.linalg.norm(Y[:, k]) if of_y.any() else 1.0)
            found = []
            for h in (width, 0.5 * width):
                ends = [solved(W, g + s * Y @ of_y, mu + s * of_mu, p, tolerance)[1] for s in (h, -h)]
                found.append((ends[0] - ends[1]) / (2 * h))
            wanted[:, k], jumps[k] = found[1], np.abs(found[0] - found[1]).max()
    rest = g - Y @ (y := np.linalg.lstsq(Y, g, rcond=None)[0])
    x, errors = np.concatenate([Y.ravel(), y, mu, rest, p]), []
    compared = 0
    parts = (
        (slice(0, keep.sum()), np.linalg.norm(Y, axis=0).max()),
        (slice(keep.sum(), None), max(1.0, (np.abs(W) @ np.abs(p)).max())),
    )
    for by_modes in (False, True):
        (D,) = interpret(graph_of(n, int(keep.sum()), by_modes), x)
        D = D.reshape(3 * n, -1)
        for part, least in parts:
            scale = max(np.abs(D[:, part]).max(), least)
            smooth = jumps[part] < SMOOTH * scale
            errors.append(np.abs(D - wanted)[:, part][:, smooth].max(initial=0.0) / scale)
            compared += smooth.sum() * (not by_modes)
    return modes, errors, compared, len(jumps), int(keep.sum())


def main():
    """A line for each problem: largest errors with free velocities and with friction, of both; columns compared."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for name, W, g, mu, small in problems(parser.parse_args().folder):
        for part in (1.0, 0.1):
            modes, errors, smooth, columns, rank = compare(W, g, part * mu, small)
            shown = "  ".join(f"{x:.0e}" for x in errors)
            size = f"{len(mu)} contacts, rank {rank:2}, friction × {part}"
            print(f"{name:32} {size}: {modes:28} {shown}  {smooth}/{columns}")


if __name__ == "__main__":
    main()
