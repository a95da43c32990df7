"""LLVM assembly of a rollout: a time step, repeated, with one loop over time for each block of states.

``roll(n, pitch, steps, a0, …, r0, …)`` runs n of ``pitch`` states that lie side by side. Arrays of what changes from
step to step are ``(steps, pitch, …)``: the arguments named in ``moving`` and all results. The first results are the
next values of as many arguments: such an argument and its result are one trajectory, ``(steps + 1, pitch, …)``, the
result one row further on. The other arguments, ``(pitch, …)``, stay as they are.
"""

from __future__ import annotations

from delassus.compiler.program import Program


def roll(program: Program, scalar: str, lanes: int, attributes: str) -> str:
    """Assembly of ``roll``; calls ``block``, which takes as many states as there are lanes, and ``one``."""
    n_inputs = len(program.arguments)
    arrays = [
        *(
            (f"%a{i}", a.size, i < program.state_results or a.name in program.moving)
            for i, a in enumerate(program.arguments)
        ),
        *((f"%r{i}", r.size, True) for i, r in enumerate(program.results)),
    ]
    pointers = ", ".join(f"ptr {'readonly ' if k < n_inputs else ''}{name}" for k, (name, _, _) in enumerate(arrays))

    def over_time(label: str, function: str, state: str, following: str) -> list[str]:
        """Loop over time that begins at a label, for the states from ``state`` on, and goes on to another label."""
        lines, operands = [], []
        for name, size, moves in arrays:
            place, first = f"{name}.{label}", state
            if moves:
                first = f"{place}.row"
                lines.append(f"  {first} = add i64 %{label}.offset, {state}")
            lines += [
                f"  {place}.at = mul i64 {first}, {size}",
                f"  {place} = getelementptr {scalar}, ptr {name}, i64 {place}.at",
            ]
            operands.append(f"ptr {place}")
        return [
            f"{label}:",
            f"  br label %{label}.step",
            f"{label}.step:",
            f"  %{label}.t = phi i64 [ 0, %{label} ], [ %{label}.t.next, %{label}.step ]",
            f"  %{label}.offset = mul i64 %{label}.t, %pitch",
            *lines,
            f"  call void @{function}({', '.join(operands)})",
            f"  %{label}.t.next = add i64 %{label}.t, 1",
            f"  %{label}.more = icmp slt i64 %{label}.t.next, %steps",
            f"  br i1 %{label}.more, label %{label}.step, label %{following}",
        ]

    body = [
        f"define void @roll(i64 %n, i64 %pitch, i64 %steps, {pointers}) {attributes} {{",
        "entry:",
        "  %states = icmp sgt i64 %n, 0",
        "  %time = icmp sgt i64 %steps, 0",
        "  %any = and i1 %states, %time",
        "  br i1 %any, label %start, label %end",
        "start:",
    ]
    if lanes > 1:
        body += [
            f"  %few = icmp slt i64 %n, {lanes}",
            "  br i1 %few, label %single, label %whole",
            "whole:",
            f"  %last = sub i64 %n, {lanes}",
            "  br label %blocks",
            "blocks:",
            "  %s = phi i64 [ 0, %whole ], [ %s.next, %after ]",
            "  br label %many",
            *over_time("many", "block", "%s", "after"),
            "after:",
            f"  %further = add i64 %s, {lanes}",
            "  %past = icmp sgt i64 %further, %last",
            "  %s.next = select i1 %past, i64 %last, i64 %further",
            "  %finished = icmp eq i64 %s, %last",
            "  br i1 %finished, label %end, label %blocks",
        ]
    else:
        body.append("  br label %single")
    body += [
        "single:",
        "  br label %singles",
        "singles:",
        "  %i = phi i64 [ 0, %single ], [ %i.next, %done ]",
        "  br label %alone",
        *over_time("alone", "one", "%i", "done"),
        "done:",
        "  %i.next = add i64 %i, 1",
        "  %all = icmp eq i64 %i.next, %n",
        "  br i1 %all, label %end, label %singles",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(body)
