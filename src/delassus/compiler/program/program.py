"""What every target is given: an optimised, scheduled graph and the meaning of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.constraints import Argument
from delassus.spatial.trace.graph import Graph, OperationCount
from delassus.spatial.trace.interpret import interpret


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
class Stage:
    """Straight-line part of a program that runs before its last one.

    Attributes
    ----------
    graph : Graph
        Its outputs are one group.
    targets : tuple of int
        Number of the input that each output is for those that read it; all are set at once, after a pass. Of calls,
        those of each row.
    times : int
        Most passes of a loop, which ends where the last target is not zero in all states; 0 of what is no loop.
    calls : tuple of tuple of int
        Rows of numbers of inputs, for each of which it runs: what in its place the inputs of the graph are. None of
        what runs once.
    unless : int, optional
        Number of an input: it does not run where that is not zero in all states, nor do others of the same single pass.
    """

    graph: Graph
    targets: tuple[int, ...]
    times: int = 0
    calls: tuple[tuple[int, ...], ...] = ()
    unless: int | None = None

    @property
    def passes(self) -> int:
        """Largest number of passes of the stage."""
        return max(1, self.times, len(self.calls))

    def runs(self, n_values: int) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        """Inputs, of ``n_values`` values, and targets of each pass, at most."""
        n = len(self.targets) // max(1, len(self.calls))
        for k in range(self.passes):
            yield (self.calls[k], self.targets[k * n : k * n + n]) if self.calls else (range(n_values), self.targets)

    @property
    def is_loop(self) -> bool:
        """Whether it is repeated."""
        return self.times > 0


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A kernel before it is code.

    Attributes
    ----------
    name : str
        C identifier, such as ``talos_delassus``.
    graph : Graph
        Nodes in evaluation order, whose outputs are the results. Inputs are numbered through all arguments, row-major
        within each, and then through what the stages before it set.
    arguments : tuple of Argument
    results : tuple of Result
    comment : tuple of str
        What it computes, for which robot, by which method and versions.
    before : tuple of Stage
        What runs before ``graph``, in order: loops, and what leads to them.
    error_dtype : str
        Type of the numbers in which it estimates errors by what solutions miss, if it does; see `Request`.
    """

    name: str
    graph: Graph
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    comment: tuple[str, ...] = ()
    before: tuple[Stage, ...] = ()
    error_dtype: str = ""

    @property
    def n_inputs(self) -> int:
        """Numbers of all arguments."""
        return sum(a.size for a in self.arguments)

    @property
    def n_values(self) -> int:
        """Numbers that stages set for those after them."""
        return len({target for stage in self.before for target in stage.targets})

    def count(self) -> OperationCount:
        """Operations of one state, all passes of loops counted."""
        counts = [(stage.graph.count(), stage.passes) for stage in self.before] + [(self.graph.count(), 1)]
        fields = zip(*([times * n for n in astuple(count)] for count, times in counts), strict=True)
        return OperationCount(*map(sum, fields))


def interpret_program(program: Program, x: NDArray[Any]) -> list[NDArray[Any]]:
    """Run a program on inputs (..., n_inputs), as every target has to; one array for each group of outputs."""
    values = np.concatenate([x, np.zeros((*x.shape[:-1], program.n_values), x.dtype)], axis=-1)
    for stage in program.before:
        for operands, targets in stage.runs(values.shape[-1]):
            flag = targets[-1] if stage.is_loop else stage.unless
            if flag is not None and np.all(values[..., flag] != 0):
                break
            (values[..., targets],) = interpret(stage.graph, values[..., operands])
    return interpret(program.graph, values)
