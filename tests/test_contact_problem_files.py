"""Contact problems of Siconos' text and of FCLIB's HDF5."""

import itertools

import numpy as np
import pytest

from delassus.errors import ModelError
from delassus_studies.bench.contact.corpus import read_problem
from delassus_studies.bench.contact.solvers import of_bodies


def as_text(problem, blocks):
    """A local problem as Siconos writes it, normal first: dense, or by 3 × 3 blocks."""
    n, order = problem.n_contacts, np.arange(problem.size).reshape(-1, 3)[:, [2, 0, 1]].ravel()
    W = problem.W[np.ix_(order, order)]
    if blocks:
        kept = [[j for j in range(n) if np.any(W[3 * i : 3 * i + 3, 3 * j : 3 * j + 3])] for i in range(n)]
        first = np.cumsum([0, *map(len, kept)])
        words = [1, 3 * n, 3 * n, first[-1], n, n, *range(3, 3 * n + 1, 3), *range(3, 3 * n + 1, 3), n + 1, first[-1]]
        words += [*first, *itertools.chain(*kept)]
        for k, (i, j) in enumerate([(row, column) for row in range(n) for column in kept[row]]):
            words += [k, *W[3 * i : 3 * i + 3, 3 * j : 3 * j + 3].T.ravel()]
    else:
        words = [0, 3 * n, 3 * n, 3 * n, 3 * n, *W.T.ravel()]
    numbers = [3, n, *words, *problem.b[order], *problem.mu]
    return " ".join(f"{x:.17e}" if isinstance(x, float) else str(x) for x in numbers)


@pytest.mark.parametrize("blocks", [False, True])
def test_problems_of_text_are_read(tmp_path, blocks):
    problem = of_bodies(np.random.default_rng(3), most=9)
    path = tmp_path / "problem.dat"
    path.write_text(as_text(problem, blocks))
    read, asymmetry = read_problem(path)
    for name in ("W", "b", "mu"):
        np.testing.assert_allclose(getattr(read, name), getattr(problem, name), rtol=0, atol=1e-15)
    assert asymmetry < 1e-15
    path.write_text(path.read_text()[:-40])
    with pytest.raises(ModelError, match=r"problem\.dat: expected a contact problem .* ends early"):
        read_problem(path)


@pytest.mark.parametrize("form", [-2, -1, 40])
def test_problems_of_hdf5_are_read(tmp_path, form):
    """Global ones, by compressed rows, compressed columns and triplets: reduced to ``Hᵀ M⁻¹ H``."""
    h5py, sparse = pytest.importorskip("h5py"), pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(5)
    M, H = np.diag(rng.uniform(1, 2, 4)), rng.standard_normal((4, 6))
    with h5py.File(tmp_path / "problem.hdf5", "w") as file:
        group = file.create_group("fclib_global")
        group["spacedim"] = [3]
        for name, A in (("M", M), ("H", H)):
            a = {-2: sparse.csr_matrix, -1: sparse.csc_matrix}.get(form, sparse.coo_matrix)(A)
            of_rows = (a.col, a.row, a.nnz) if form > 0 else (a.indptr, a.indices, form)
            for key, value in zip(("m", "n", "nz", "x", "p", "i"),
                                  (*A.shape, of_rows[2], a.data, *of_rows[:2]), strict=True):  # fmt: skip
                group[f"{name}/{key}"] = value
        given = {"f": rng.standard_normal(4), "w": rng.standard_normal(6), "mu": np.array([0.3, 0.8])}
        for name, value in given.items():
            group[f"vectors/{name}"] = value
    problem, _ = read_problem(tmp_path / "problem.hdf5")
    normal_first = np.arange(6).reshape(-1, 3)[:, [1, 2, 0]].ravel()
    H = H[:, normal_first]
    np.testing.assert_allclose(problem.W, H.T @ np.linalg.solve(M, H), atol=1e-12)
    np.testing.assert_allclose(problem.b, H.T @ np.linalg.solve(M, given["f"]) + given["w"][normal_first], atol=1e-12)
    np.testing.assert_allclose(problem.mu, given["mu"])
