"""Clusters of links that loops tie: methods over them beside the dense saddle point, and what they cost."""

from __future__ import annotations

import delassus as ds
from delassus_studies.loop_mechanisms import four_bars


def test_the_transmission_is_linear_in_the_number_of_loops():
    """Each four-bar of a tower adds about as many operations as the one before."""
    counts = []
    for n in (2, 4, 8):
        case = four_bars(n)
        kernel = ds.compile(case.tree, case.constraints, "reduced_dynamics", outputs="G")
        counts.append(kernel.operations.total)
    assert counts[2] - counts[1] < 2.2 * (counts[1] - counts[0])
