"""From a robot, constraints and what is wanted of them to a `Program`: trace, optimise, schedule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from delassus.compiler.options import Setting, describe_frame
from delassus.compiler.passes import optimise
from delassus.compiler.program import Argument, Program, Result
from delassus.compiler.schedule import schedule
from delassus.compiler.symbolic_inputs import Setup, arguments_of
from delassus.compiler.tasks import Task, find_task, method_that_runs
from delassus.compiler.trace import Output, trace_setup
from delassus.constraints import Constraint
from delassus.model.tree import Tree
from delassus.spatial.casadi_ops import CasadiOps

trace = trace_setup  # a stage by its name


def make_program(
    tree: Tree,
    constraints: Sequence[Constraint],
    what: str,
    method: str,
    payloads: Sequence[str] = (),
    setting: Setting | None = None,
) -> Program:
    """Trace what is wanted, optimise and schedule its graph."""
    task, options = find_task(what), setting or Setting()
    used = tuple(constraints)
    taken = method_that_runs(what, method, options.soft(used))
    arguments = arguments_of(tree, used, task.states, payloads, options)
    traced = trace(Setup(CasadiOps(), tree, used, arguments, payloads, options, taken), task.run)
    graph = schedule(optimise(traced.kernel_graph()))
    results: list[Result] = []
    start = 0
    for output, group in zip(traced.outputs, graph.outputs, strict=True):
        entries = tuple(start + k for k in output.entries())
        results.append(Result(output.name, output.shape, entries, output.meaning, output.hidden))
        start += len(group)
    name = re.sub(r"\W+", "_", f"{tree.name}_{what}").strip("_") or what
    count = graph.count().total
    comment = (
        *_meanings(task, traced.outputs),
        f"Robot: {tree.name}, nq = {tree.nq}, nv = {tree.nv}, fingerprint {tree.fingerprint}.",
        f"Constraints: {', '.join(map(repr, used)) or 'none'}.",
        f"{f'Method: {taken}, {count}' if task.methods else count} operations.",
        f"Made by delassus {version('delassus')} with CasADi {version('casadi')}.",
    )
    return Program(
        name=name if not name[0].isdigit() else f"robot_{name}",
        graph=graph,
        arguments=arguments,
        results=tuple(results),
        comment=comment,
        state_results=task.state_results,
        moving=moving_arguments(task, arguments),
    )


def moving_arguments(task: Task, arguments: Sequence[Argument]) -> frozenset[str]:
    """What a rollout takes anew at each step: all arguments of a time step but the state and the step itself."""
    return frozenset(a.name for a in arguments[task.state_results :] if task.state_results and a.name != "dt")


def _meanings(task: Task, outputs: Sequence[Output]) -> list[str]:
    if len(outputs) == 1:
        return [f"{outputs[0].meaning}."]
    return [f"{task.meaning}: {'; '.join(f'{x.name}, {x.meaning}' for x in outputs)}."]


def describe(value: Any) -> str:
    """Unambiguous text of a constraint, for keys of caches."""
    parts = [type(value).__name__, value.axes, value.angular_axes, value.size, value.rigid]
    for frame in (value.first, value.second):
        parts.append(None if frame is None else describe_frame(frame))
    parts.append(None if value.rows is None else value.rows.tolist())
    return repr(parts)
