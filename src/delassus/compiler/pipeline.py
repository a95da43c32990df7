"""From a request to a `Program`: trace, optimise, schedule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version

from delassus.compiler.passes import optimise
from delassus.compiler.program import Program, Result
from delassus.compiler.schedule import schedule
from delassus.compiler.trace import Output, trace_request
from delassus.quantities.request import Request

trace = trace_request  # a stage by its name


def make_program(asked: Request) -> Program:
    """Trace what is asked for, optimise and schedule its graph."""
    tree, quantity = asked.tree, asked.quantity
    traced = trace(asked)
    graph = schedule(optimise(traced.kernel_graph()))
    results: list[Result] = []
    start = 0
    for output, group in zip(traced.outputs, graph.outputs, strict=True):
        entries = tuple(start + k for k in output.entries())
        results.append(Result(output.name, output.shape, entries, output.meaning, output.hidden))
        start += len(group)
    name = re.sub(r"\W+", "_", f"{tree.name}_{quantity.name}").strip("_") or quantity.name
    count = graph.count().total
    comment = (
        _meaning(quantity.meaning, traced.outputs),
        f"Robot: {tree.name}, nq = {tree.nq}, nv = {tree.nv}, fingerprint {tree.fingerprint}.",
        f"Constraints: {', '.join(map(repr, asked.constraints)) or 'none'}.",
        f"{f'Method: {asked.method}, {count}' if quantity.methods else count} operations.",
        f"Made by delassus {version('delassus')}.",
    )
    return Program(
        name=name if not name[0].isdigit() else f"robot_{name}",
        graph=graph,
        arguments=asked.arguments,
        results=tuple(results),
        comment=comment,
        state_results=len(quantity.outputs) if quantity.is_step else 0,
        moving=moving_arguments(asked),
    )


def moving_arguments(asked: Request) -> frozenset[str]:
    """What a rollout takes anew at each step: all arguments of a time step but the state and the step itself."""
    if not asked.quantity.is_step:
        return frozenset()
    return frozenset(a.name for a in asked.arguments[len(asked.quantity.outputs) :] if a.name != "dt")


def _meaning(whole: str, outputs: Sequence[Output]) -> str:
    if len(outputs) == 1:
        return f"{outputs[0].meaning}."
    return f"{whole}: {'; '.join(f'{x.name}, {x.meaning}' for x in outputs)}."
