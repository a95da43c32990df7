"""What every target is given: an optimised, scheduled graph and the meaning of its inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from delassus.algorithms.inputs import Argument
from delassus.spatial.graph import Graph


@dataclass(frozen=True, slots=True)
class Result:
    """An output array of a program.

    Attributes
    ----------
    name : str
        C identifier.
    shape : tuple of int
        Shape of one state.
    entries : tuple of int
        For each element, row-major, its position among the graph's outputs (all groups one after the other); a
        symmetric matrix names each output of its triangle twice.
    meaning : str
        Units and layout, for people.
    hidden : bool
        Whether kernels keep it to themselves: it says how well a state was solved.
    """

    name: str
    shape: tuple[int, ...]
    entries: tuple[int, ...]
    meaning: str = ""
    hidden: bool = False

    @property
    def size(self) -> int:
        """Numbers in one state."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A kernel before it is code.

    Attributes
    ----------
    name : str
        C identifier, such as ``talos_delassus``.
    graph : Graph
        Nodes in evaluation order. Inputs are numbered through all arguments, row-major within each.
    arguments : tuple of Argument
    results : tuple of Result
    comment : tuple of str
        What it computes, for which robot, by which method and versions.
    is_step : bool
        Whether the results are the next values of the first arguments, so that a rollout can repeat it.
    """

    name: str
    graph: Graph
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    comment: tuple[str, ...] = ()
    is_step: bool = False
