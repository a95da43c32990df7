"""LLVM assembly of loops over the states of a batch, and of calls that lead to them.

``span(arrays, first, n)`` runs n states from ``first`` on, with an array of pointers to the arrays: one by one, or
whole blocks of as many as there are lanes, the last one overlapping the one before it; there must be one at least.

``batch(n, a0, …, r0, …)`` runs n states.
"""

from __future__ import annotations

from delassus.compiler.program.program import Program


def pointers(program: Program) -> list[str]:
    """Names of the arrays."""
    return [f"%a{i}" for i in range(len(program.arguments))] + [f"%r{i}" for i in range(len(program.results))]


def sizes(program: Program) -> list[int]:
    """Numbers of a state in each array."""
    return [*(a.size for a in program.arguments), *(r.size for r in program.results)]


def signature(program: Program) -> str:
    """Parameters of a function that takes the arrays, which do not overlap."""
    readonly = ["readonly "] * len(program.arguments) + [""] * len(program.results)
    return ", ".join(f"ptr noalias {kind}{p}" for kind, p in zip(readonly, pointers(program), strict=True))


def span(program: Program, scalar: str, lanes: int, at_once: int, attributes: str) -> str:
    """Assembly of ``span``; calls ``one``, or ``block``, which takes from one to so many blocks ``at_once``."""

    def call(function: str, state: str, states: str = "") -> str:
        """Call for the arrays from a state on."""
        lines, operands = "", [f"i64 {states}"] if states else []
        for p, size in zip(pointers(program), sizes(program), strict=True):
            name = f"{p}.{state[1:]}"
            lines += f"  {name}.at = mul i64 {state}, {size}\n"
            lines += f"  {name} = getelementptr {scalar}, ptr {p}, i64 {name}.at\n"
            operands.append(f"ptr {name}")
        return f"{lines}  call void @{function}({', '.join(operands)})"

    ones = f"""  %next = add i64 %s, 1
{call("one", "%s")}"""
    blocks = f"""  %last = sub i64 %end, {lanes}
  %left = sub i64 %end, %s
  %many = icmp sgt i64 %left, {lanes * at_once}
  %states = select i1 %many, i64 {lanes * at_once}, i64 %left
{call("block", "%s", "%states")}
  %further = add i64 %s, %states
  %past = icmp sgt i64 %further, %last
  %next = select i1 %past, i64 %last, i64 %further"""
    arrays = "\n".join(
        f"  {p}.at = getelementptr ptr, ptr %arrays, i64 {k}\n  {p} = load ptr, ptr {p}.at"
        for k, p in enumerate(pointers(program))
    )
    return f"""define void @span(ptr %arrays, i64 %first, i64 %n) {attributes} {{
{arrays}
  %end = add i64 %first, %n
  br label %some
some:
  %s = phi i64 [ %first, %0 ], [ %next, %some ]
{ones if lanes == 1 else blocks}
  %finished = icmp eq i64 %{"next" if lanes == 1 else "further"}, %end
  br i1 %finished, label %done, label %some
done:
  ret void
}}"""


def batch(program: Program, attributes: str) -> str:
    """Assembly of ``batch``."""
    arrays = pointers(program)
    lines = [f"define void @batch(i64 %n, {', '.join(f'ptr {p}' for p in arrays)}) {attributes} {{"]
    lines.append(f"  %arrays = alloca ptr, i64 {len(arrays)}")
    for k, p in enumerate(arrays):
        lines += [f"  {p}.at = getelementptr ptr, ptr %arrays, i64 {k}", f"  store ptr {p}, ptr {p}.at"]
    return "\n".join([*lines, "  call void @span(ptr %arrays, i64 0, i64 %n)", "  ret void", "}"])
