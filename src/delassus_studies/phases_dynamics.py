"""Operations of every method of forward dynamics by phase, as `delassus.spatial.ops.Ops.mark` names them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from delassus.algorithms.dynamics import METHODS, SOFT, UNCONSTRAINED
from delassus.compiler.graph import OperationCount
from delassus.compiler.options import Options, check_options
from delassus.compiler.symbolic_inputs import Setup, arguments_of
from delassus.compiler.tasks import find_task
from delassus.compiler.trace import Trace, report_of, trace_setup
from delassus.constraints import check_constraints
from delassus.spatial.casadi_ops import CasadiOps
from delassus_studies.cases import Case, benchmark_cases

COMPLIANCE = 1e-6

Phases = dict[str, OperationCount]


def dynamics_trace(case: Case, method: str) -> Trace:
    """Forward dynamics of a case by a method, with its phases."""
    task, constraints = find_task("dynamics"), check_constraints(case.tree, case.constraints)
    options: Options = {"compliance": COMPLIANCE} if method in SOFT and constraints else {}
    setting = check_options(case.tree, constraints, "dynamics", task.options, options)
    arguments = arguments_of(case.tree, constraints, task.states, (), setting)
    return trace_setup(Setup(CasadiOps(), case.tree, constraints, arguments, (), setting, method), task.run)


def phases(traced: Trace) -> Phases:
    """Operations that each phase adds to those before it, of what the results need; the last is the rest."""
    return {name: number for name, number in report_of(traced).phases if number.total}


def table(case: Case, found: dict[str, Phases]) -> Table:
    """One line a phase, one column a method."""
    out = Table(title=f"{case.name}: operations by phase", title_justify="left")
    out.add_column("phase")
    for method in found:
        out.add_column(method, justify="right")
    for name in dict.fromkeys(name for own in found.values() for name in own):
        out.add_row(name, *(f"{own[name].total:,}" if name in own else "" for own in found.values()))
    out.add_section()
    for kind in ("mul", "add", "neg", "div", "sqrt", "trig", "other"):
        out.add_row(kind, *(f"{sum(getattr(c, kind) for c in own.values()):,}" for own in found.values()))
    out.add_row("total", *(f"{sum(c.total for c in own.values()):,}" for own in found.values()), style="bold")
    return out


def run(console: Console, cases: Sequence[Case] | None = None) -> dict[str, dict[str, Phases]]:
    """Count and print every method that takes constraints, case by case."""
    counted: dict[str, dict[str, Phases]] = {}
    for case in benchmark_cases() if cases is None else cases:
        methods = [method for method in METHODS if method not in UNCONSTRAINED]
        counted[case.name] = {method: phases(dynamics_trace(case, method)) for method in methods}
        console.print(table(case, counted[case.name]))
    return counted
