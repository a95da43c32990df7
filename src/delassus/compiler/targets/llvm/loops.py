"""LLVM assembly of loops: over the states of a batch, and over the time steps of a rollout.

``batch(n, a0, …, r0, …)`` runs n states: whole blocks of as many as there are lanes, the last one overlapping the one
before it; fewer than a block one by one.

``span(arrays, first, n)`` runs n states from ``first`` on, with an array of pointers to the arrays.

``roll(n, pitch, steps, moves, a0, …, r0, …)`` runs n of ``pitch`` states that lie side by side through a time step,
repeated. Arrays whose entry of ``moves`` is 1 are ``(steps, pitch, …)``; where it is 0, ``(pitch, …)``, the same at all
steps. A result that is the next value of an argument and that argument are one trajectory, ``(steps + 1, pitch, …)``,
the result one row further on.
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
    """Assembly of ``span``; calls ``block``, which takes from one to so many blocks ``at_once``, and ``one``."""

    def call(function: str, state: str, states: str = "") -> list[str]:
        lines, operands = [], [f"i64 {states}"] if states else []
        for p, size in zip(pointers(program), sizes(program), strict=True):
            name = f"{p}.{state[1:]}"
            lines.append(f"  {name}.at = mul i64 {state}, {size}")
            lines.append(f"  {name} = getelementptr {scalar}, ptr {p}, i64 {name}.at")
            operands.append(f"ptr {name}")
        return [*lines, f"  call void @{function}({', '.join(operands)})"]

    body = [f"define void @span(ptr %arrays, i64 %first, i64 %n) {attributes} {{", "entry:"]
    for k, p in enumerate(pointers(program)):
        body += [f"  {p}.at = getelementptr ptr, ptr %arrays, i64 {k}", f"  {p} = load ptr, ptr {p}.at"]
    body.append("  %end.state = add i64 %first, %n")
    if lanes > 1:
        body += [
            f"  %few = icmp slt i64 %n, {lanes}",
            "  br i1 %few, label %single, label %whole",
            "whole:",
            f"  %last = sub i64 %end.state, {lanes}",
            "  br label %blocks",
            "blocks:",
            "  %s = phi i64 [ %first, %whole ], [ %next, %blocks ]",
            "  %left = sub i64 %end.state, %s",
            f"  %many = icmp sgt i64 %left, {lanes * at_once}",
            f"  %states = select i1 %many, i64 {lanes * at_once}, i64 %left",
            *call("block", "%s", "%states"),
            "  %further = add i64 %s, %states",
            "  %past = icmp sgt i64 %further, %last",
            "  %next = select i1 %past, i64 %last, i64 %further",
            "  %finished = icmp eq i64 %further, %end.state",
            "  br i1 %finished, label %end, label %blocks",
            "single:",
        ]
    else:
        body += ["  br label %single", "single:"]
    body += ["  %none = icmp sle i64 %n, 0", "  br i1 %none, label %end, label %singles"]
    body += [
        "singles:",
        "  %i = phi i64 [ %first, %single ], [ %i.next, %singles ]",
        *call("one", "%i"),
        "  %i.next = add i64 %i, 1",
        "  %all = icmp eq i64 %i.next, %end.state",
        "  br i1 %all, label %end, label %singles",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(body)


def batch(program: Program, attributes: str) -> str:
    """Assembly of ``batch``."""
    arrays = pointers(program)
    lines = [f"define void @batch(i64 %n, {', '.join(f'ptr {p}' for p in arrays)}) {attributes} {{"]
    lines.append(f"  %arrays = alloca ptr, i64 {len(arrays)}")
    for k, p in enumerate(arrays):
        lines += [f"  {p}.at = getelementptr ptr, ptr %arrays, i64 {k}", f"  store ptr {p}, ptr {p}.at"]
    return "\n".join([*lines, "  call void @span(ptr %arrays, i64 0, i64 %n)", "  ret void", "}"])


XLA_ENTRY = """@xla_record = global ptr null
define ptr @xla(ptr %frame) nounwind {
  %record = load ptr, ptr @xla_record
  %entry = load ptr, ptr %record
  %error = tail call ptr %entry(ptr %frame, ptr %record)
  ret ptr %error
}"""
"""Calls the entry that is the first of a kernel's record."""


def roll(program: Program, scalar: str, lanes: int, attributes: str) -> str:
    """Assembly of ``roll``; calls ``block`` and ``one`` as ``batch`` does."""
    n_inputs = len(program.arguments)
    arrays = list(zip(pointers(program), sizes(program), strict=True))
    shown = ", ".join(f"ptr {'readonly ' if k < n_inputs else ''}{p}" for k, (p, _) in enumerate(arrays))

    def over_time(label: str, function: str, state: str, following: str) -> list[str]:
        """Loop over time for the states from ``state`` on; goes on to the label ``following``."""
        lines, operands, first = [], [], [f"i64 {lanes}"] if function == "block" else []
        for k, (p, size) in enumerate(arrays):
            place = f"{p}.{label}"
            lines += [
                f"  {place}.move = getelementptr i64, ptr %moves, i64 {k}",
                f"  {place}.moves = load i64, ptr {place}.move",
                f"  {place}.offset = mul i64 {place}.moves, %{label}.offset",
                f"  {place}.row = add i64 {place}.offset, {state}",
                f"  {place}.at = mul i64 {place}.row, {size}",
                f"  {place} = getelementptr {scalar}, ptr {p}, i64 {place}.at",
            ]
            operands.append(f"ptr {place}")
        return [
            f"  br label %{label}",
            f"{label}:",
            f"  br label %{label}.step",
            f"{label}.step:",
            f"  %{label}.t = phi i64 [ 0, %{label} ], [ %{label}.t.next, %{label}.step ]",
            f"  %{label}.offset = mul i64 %{label}.t, %pitch",
            *lines,
            f"  call void @{function}({', '.join([*first, *operands])})",
            f"  %{label}.t.next = add i64 %{label}.t, 1",
            f"  %{label}.more = icmp slt i64 %{label}.t.next, %steps",
            f"  br i1 %{label}.more, label %{label}.step, label %{following}",
            f"{following}:",
        ]

    body = [
        f"define void @roll(i64 %n, i64 %pitch, i64 %steps, ptr readonly %moves, {shown}) {attributes} {{",
        "entry:",
        "  %states = icmp sgt i64 %n, 0",
        "  %time = icmp sgt i64 %steps, 0",
        "  %any = and i1 %states, %time",
        "  br i1 %any, label %start, label %end",
        "start:",
    ]
    if lanes > 1:
        body += _blocks(lanes, over_time("many", "block", "%s", "after"), "after", "%s.next")
    else:
        body += ["  br label %single", "single:"]
    return "\n".join([*body, "  br label %singles", *_singles(over_time("alone", "one", "%i", "done"), "done")])


def _blocks(lanes: int, body: list[str], latch: str, following: str) -> list[str]:
    """Loop over blocks whose ``body`` is for the states from ``%s`` on; goes on to ``single`` if there is no block."""
    return [
        f"  %few = icmp slt i64 %n, {lanes}",
        "  br i1 %few, label %single, label %whole",
        "whole:",
        f"  %last = sub i64 %n, {lanes}",
        "  br label %blocks",
        "blocks:",
        f"  %s = phi i64 [ 0, %whole ], [ {following}, %{latch} ]",
        *body,
        f"  %further = add i64 %s, {lanes}",
        "  %past = icmp sgt i64 %further, %last",
        f"  {following} = select i1 %past, i64 %last, i64 %further",
        "  %finished = icmp eq i64 %s, %last",
        "  br i1 %finished, label %end, label %blocks",
        "single:",
    ]


def _singles(body: list[str], latch: str) -> list[str]:
    """Loop over single states whose ``body`` is for the state ``%i``, and the end of the function."""
    return [
        "singles:",
        f"  %i = phi i64 [ 0, %single ], [ %i.next, %{latch} ]",
        *body,
        "  %i.next = add i64 %i, 1",
        "  %all = icmp eq i64 %i.next, %n",
        "  br i1 %all, label %end, label %singles",
        "end:",
        "  ret void",
        "}",
    ]
