"""The matrix of a problem in sparse form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from delassus.contact.formulations.nmc import NonMinimalCoordinates
from delassus.contact.formulations.pyramids import directions
from delassus.errors import missing_dependency

if TYPE_CHECKING:
    from delassus.contact.formulations.problem import ContactProblem


def sparse_matrix(problem: ContactProblem) -> Any:
    """``𝔐`` as a `scipy.sparse.csc_array`; O(n + n_u n_f) for ``nmc``, that of the dense matrix for the others.

    Raises
    ------
    MissingDependencyError
        scipy is not installed.
    """
    try:
        from scipy.sparse import coo_array, csc_array
    except ImportError as error:
        raise missing_dependency("scipy", "contact", "sparse matrices") from error
    f = problem.model
    if not isinstance(f, NonMinimalCoordinates):
        return csc_array(problem.matrix)
    n_f, n = problem.n_directions, len(problem.contacts)
    D, first, sigma = directions(n_f), problem.n_free, problem.blocks["slack"].start
    row, column, value = f.contact
    contact, axis = np.divmod(row, 3)
    beta = (first + contact * (n_f + 1))[:, None] + np.arange(n_f + 1)
    along = value[:, None] * D[axis]
    across = np.broadcast_to(column[:, None], beta.shape)
    normals = first + np.arange(n) * (n_f + 1)
    tangents = (normals[:, None] + 1 + np.arange(n_f)).ravel()
    slack = sigma + np.arange(n)
    ones = np.ones(n * n_f)
    A_row, A_column, A_value = f.free
    rows = (A_row, across.ravel(), beta.ravel(), tangents, slack, np.repeat(slack, n_f))
    columns = (A_column, beta.ravel(), across.ravel(), np.repeat(slack, n_f), normals, tangents)
    values = (A_value, -along.ravel(), along.ravel(), ones, problem.contacts.friction, -ones)
    shape = (problem.size, problem.size)
    triplets = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return coo_array(triplets, shape=shape).tocsc()
