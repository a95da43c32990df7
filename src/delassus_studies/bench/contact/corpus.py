"""Contact solvers on the problems of a folder: files of Siconos (text) and of FCLIB (HDF5), 3-D, local and global.

Local problems are ``W``, ``b`` and ``mu``; global ones, ``M v = H r + f`` and ``u = Hᵀ v + w``, are reduced to these by
``W = Hᵀ M⁻¹ H``. Of a ``W`` that is not symmetric its symmetric part is taken; the table says how far it is from that.
Residuals are those of `ConeProblem`, over ``|b|``, computed here for every solver.

Source: https://frictionalcontactlibrary.github.io (FCLIB); Siconos' manual (numerics) for the text; Dolan and Moré 2002
for performance profiles.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from delassus.cli.tables import Record, environment, table
from delassus.contact import ConeProblem, SolverStatus, admm, interior, nsgs
from delassus.errors import ModelError, require
from delassus.spatial.rotations import Array
from delassus_studies.peers import siconos
from delassus_studies.timing import best, pinned

TOLERANCE = 1e-8
"""Of residuals, over ``|b|``."""

SOLVERS: dict[str, Callable[..., Any]] = {"nsgs": nsgs, "interior": interior, "admm": admm}

SWEEPS, SMALL = 1_000, 60
"""Most sweeps of Siconos, which takes minutes for ten times as many; most contacts of a quick run."""

ROUNDS = 3
"""Runs of each solver and problem; the best counts."""

WITHIN = (1.0, 2.0, 5.0, 10.0, 100.0)
"""Times over that of the fastest solver at which performance profiles are shown."""


class Problem(NamedTuple):
    """A problem of a file, and how far its ``W`` was from symmetric, over its largest entry."""

    cone: ConeProblem
    asymmetry: float


# -- readers -------------------------------------------------------------------------------------------------------


class _Words:
    """Numbers of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._words, self._at = text.split(), 0

    def whole(self) -> int:
        """The next number, a whole one."""
        self._at += 1
        return int(self._words[self._at - 1])

    def some(self, count: int) -> Array:
        """The next ``count`` numbers."""
        found = np.array(self._words[self._at : self._at + count], dtype=float)
        if found.size != count:
            raise ValueError(f"{found.size} numbers where {count} are needed: the file ends early")
        self._at += count
        return found

    @property
    def is_matrix_next(self) -> bool:
        """Whether storage and sizes of a matrix follow, and not numbers with a point."""
        return all(word.isdecimal() for word in self._words[self._at : self._at + 3])

    def matrix(self) -> Array:
        """A matrix by columns, or by rows of blocks, each by columns."""
        kind, m, n = self.whole(), self.whole(), self.whole()
        if kind == 0:
            m, n = self.whole(), self.whole()
            return self.some(m * n).reshape(n, m).T
        if kind != 1:
            raise ValueError(f"matrix storage {kind}, of which 0 (dense) and 1 (blocks) are read")
        self.whole()
        heights, widths = self.whole(), self.whole()
        rows, columns = (np.r_[0, self.some(size).astype(int)] for size in (heights, widths))
        sizes = self.whole(), self.whole()
        first, column = (self.some(size).astype(int) for size in sizes)
        A = np.zeros((m, n))
        for i, (begin, end) in enumerate(pairwise(first)):
            for j in column[begin:end]:
                self.whole()
                here = slice(rows[i], rows[i + 1]), slice(columns[j], columns[j + 1])
                height, width = A[here].shape
                A[here] = self.some(height * width).reshape(width, height).T
        return A


def _of_text(path: Path) -> tuple[Array, Array, Array, int]:
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()
    with opened as file:
        words = _Words(file.read())
    dimension, n = words.whole(), words.whole()
    M = words.matrix()
    if not words.is_matrix_next:
        return M, words.some(dimension * n), words.some(n), dimension
    H, f = words.matrix(), words.some(len(M))
    return *_reduced(M, H, f, words.some(dimension * n)), words.some(n), dimension


def _of_hdf5(path: Path) -> tuple[Array, Array, Array, int]:
    require("h5py", "record", "to read HDF5")
    import h5py

    with h5py.File(path, "r") as file:
        name = next((name for name in ("fclib_local", "fclib_global") if name in file), None)
        if name is None:
            raise ValueError("neither fclib_local nor fclib_global")
        group, vectors = file[name], file[name]["vectors"]
        dimension, mu = int(np.ravel(group["spacedim"])[0]), np.ravel(vectors["mu"])
        if name == "fclib_local":
            return _sparse(group["W"]), np.ravel(vectors["q"]), mu, dimension
        W, b = _reduced(_sparse(group["M"]), _sparse(group["H"]), np.ravel(vectors["f"]), np.ravel(vectors["w"]))
        return W, b, mu, dimension


def _sparse(group: Any) -> Array:
    """A matrix by compressed columns (nz = −1), compressed rows (−2), or triplets."""
    m, n, nz = (int(np.ravel(group[name])[0]) for name in ("m", "n", "nz"))
    p, i, x = (np.ravel(group[name]) for name in "pix")
    A = np.zeros((m, n))
    if nz >= 0:
        np.add.at(A, (i[:nz], p[:nz]), x[:nz])
        return A
    other = np.repeat(np.arange(p.size - 1), np.diff(p))
    np.add.at(A, (i[: p[-1]], other) if nz == -1 else (other, i[: p[-1]]), x[: p[-1]])
    return A


def _reduced(M: Array, H: Array, f: Array, w: Array) -> tuple[Array, Array]:
    """``W`` and ``b`` of a global problem."""
    solved = np.linalg.solve(M, np.column_stack([H, f]))
    return H.T @ solved[:, :-1], H.T @ solved[:, -1] + w


def read_problem(path: Path) -> Problem:
    """Problem of a file: ``.dat`` and ``.dat.gz`` of Siconos, ``.hdf5`` of FCLIB; raises `ModelError`."""
    try:
        W, b, mu, dimension = (_of_hdf5 if path.suffix == ".hdf5" else _of_text)(path)
        if dimension != 3 or len(W) != 3 * mu.size:
            raise ValueError(f"dimension {dimension}, {mu.size} contacts and {len(W)} rows")
    except (ValueError, IndexError, KeyError, OSError, np.linalg.LinAlgError) as error:
        advice = "Problems are 3-D, local or global."
        raise ModelError(str(path), "a contact problem of Siconos or FCLIB", str(error), advice) from error
    order = np.arange(b.size).reshape(-1, 3)[:, [1, 2, 0]].ravel()  # theirs: normal first
    W, size = W[np.ix_(order, order)], float(np.abs(W).max(initial=0.0)) or 1.0
    asymmetry = float(np.abs(W - W.T).max(initial=0.0)) / size
    return Problem(ConeProblem(0.5 * (W + W.T), b[order], mu), asymmetry)


def read_problems(folder: Path) -> dict[str, Problem]:
    """All problems of a folder, by file name; raises `ModelError` where there is none."""
    paths = sorted(p for p in folder.rglob("*") if p.name.endswith((".dat", ".dat.gz", ".hdf5")))
    if not paths:
        came = "a folder without any" if folder.is_dir() else "no folder"
        raise ModelError(str(folder), "a folder with .dat, .dat.gz or .hdf5", came, "Files of Siconos or FCLIB.")
    return {path.name: read_problem(path) for path in paths}


# -- what is measured ----------------------------------------------------------------------------------------------


def measure(folder: Path, quick: bool = False) -> Iterator[Record]:
    """Solve each problem by each solver; the record before and after."""
    record: Record = {**environment(), "problems": {}}
    yield record
    rounds = 1 if quick else ROUNDS
    problems = {name: p for name, p in read_problems(folder).items() if not quick or p.cone.n_contacts <= SMALL}
    for solve in SOLVERS.values():
        solve(ConeProblem(np.eye(3), [0.0, 0.0, -1.0], 0.5))  # compiles
    with pinned():
        for name, (cone, asymmetry) in problems.items():
            tolerance = TOLERANCE * float(np.linalg.norm(cone.b))
            found: dict[str, Any] = {}
            for solver, solve in SOLVERS.items():
                seconds, solution = best(partial(solve, cone, tolerance=tolerance), rounds)
                claims = solution.status in (SolverStatus.CONVERGED, SolverStatus.ROUND_OFF)
                found[solver] = {"seconds": seconds, "residual": solution.residual() / tolerance, "claims": claims}
            if siconos.python() is not None:
                answer = siconos.solved((), [cone], TOLERANCE, SWEEPS, rounds)["NSGS"]
                residual = cone.residual(answer.solutions[0].reshape(-1, 3)) / tolerance
                claims = answer.failed == 0
                found["Siconos"] = {"seconds": float(answer.seconds[0]), "residual": residual, "claims": claims}
            record["problems"][name] = {"contacts": cone.n_contacts, "asymmetry": asymmetry, "found": found}
    yield record


def tables(record: Record) -> Iterator[Table | str]:
    """A row for each problem, and performance profiles: how many are solved within a multiple of the least time."""
    problems = record["problems"]
    if not problems:
        return
    solvers = list(next(iter(problems.values()))["found"])
    columns = ("problem", "contacts:,", "asymmetry:.0e", *(f"{solver}:.4f s" for solver in solvers))
    rows = [
        (name, p["contacts"], p["asymmetry"], *(_time(p["found"][solver]) for solver in solvers))
        for name, p in problems.items()
    ]
    yield table(f"time to {TOLERANCE:.0e} of |b|, a dash where that is missed", columns, rows)
    times = np.array([[_time(p["found"][solver]) or np.inf for solver in solvers] for p in problems.values()])
    ratios = times / np.minimum(times.min(axis=1, keepdims=True), np.finfo(float).max)
    profile = [(solver, *(int((of <= t).sum()) for t in WITHIN)) for solver, of in zip(solvers, ratios.T, strict=True)]
    yield table(f"problems of {len(problems)} solved within so many times the least time",
                ("solver", *(f"{t:g}:," for t in WITHIN)), profile)  # fmt: skip
    false = [
        f"{name} by {solver} ({f['residual']:.1f} times)"
        for name, p in problems.items()
        for solver, f in p["found"].items()
        if f["claims"] and _time(f) is None
    ]
    yield f"called solved above the tolerance: {', '.join(false) or 'none'}"
    if "Siconos" not in solvers:
        yield "Siconos was not run: no Python here can import it (SICONOS_PYTHON names one)"


def _time(found: Any) -> float | None:
    return found["seconds"] if found["residual"] <= 1.0 + 1e-6 else None
