"""A compiled loop and all that it calls, as one module of LLVM assembly with an entry for Python.

``entry(in, out)`` reads operands of the arguments, 8 bytes each, and writes those of the result behind the list of the
memory that arrays of the result are in, which ``release_all`` gives back. ``direct(…)`` is
a function of integers as C calls it.
"""

from __future__ import annotations

import itertools
import re

from delassus.compiler.jit.expressions import Called, CompiledFunction, returned
from delassus.compiler.jit.statements import FunctionBody
from delassus.compiler.jit.types import INT, NOTHING, Type, has_arrays, operands_of

MEMORY = """
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare double @llvm.sqrt.f64(double)
declare double @llvm.fabs.f64(double)
declare double @llvm.copysign.f64(double, double)
declare double @llvm.fma.f64(double, double, double)
declare i64 @llvm.fptosi.sat.i64.f64(double)
define internal noalias ptr @take(ptr %heap, i64 %size) noinline nounwind {
  %all = add i64 %size, 16
  %p = call ptr @malloc(i64 %all)
  %before = load ptr, ptr %heap
  store ptr %before, ptr %p
  %place = getelementptr i64, ptr %p, i64 1
  store i64 %size, ptr %place
  store ptr %p, ptr %heap
  %free = getelementptr i8, ptr %p, i64 16
  ret ptr %free
}
define internal void @release(ptr %heap, ptr %mark, ptr %kept, i64 %n) noinline nounwind {
entry:
  br label %head
head:
  %link = phi ptr [ %heap, %entry ], [ %link, %drop ], [ %p, %keep ]
  %p = load ptr, ptr %link
  %done = icmp eq ptr %p, %mark
  br i1 %done, label %end, label %more
more:
  %before = load ptr, ptr %p
  %place = getelementptr i64, ptr %p, i64 1
  %size = load i64, ptr %place
  %all = add i64 %size, 16
  %last = getelementptr i8, ptr %p, i64 %all
  br label %look
look:
  %k = phi i64 [ 0, %more ], [ %next, %other ]
  %some = icmp slt i64 %k, %n
  br i1 %some, label %compare, label %drop
compare:
  %address = getelementptr ptr, ptr %kept, i64 %k
  %x = load ptr, ptr %address
  %above = icmp ugt ptr %x, %p
  %below = icmp ule ptr %x, %last
  %inside = and i1 %above, %below
  br i1 %inside, label %keep, label %other
other:
  %next = add i64 %k, 1
  br label %look
keep:
  br label %head
drop:
  store ptr %before, ptr %link
  call void @free(ptr %p)
  br label %head
end:
  ret void
}
define void @release_all(ptr %heap) {
  call void @release(ptr %heap, ptr null, ptr null, i64 0)
  ret void
}
"""
"""Arrays are in a list of pieces of memory: each begins with the address of the one taken before, and its size.

What is not kept is given back: at the end of a function what it does not return, and at that of each round of a loop
what no variable holds.
"""

ALIASES = """
!0 = !{!"loops"}
!1 = !{!4, !4, i64 0}
!2 = !{!5, !5, i64 0}
!3 = !{!6, !6, i64 0}
!4 = !{!"float", !0, i64 0}
!5 = !{!"int", !0, i64 0}
!6 = !{!"bool", !0, i64 0}
!7 = !{!8, !8, i64 0}
!8 = !{!"float32", !0, i64 0}
!9 = !{!"llvm.loop.unroll.runtime.disable"}
"""
FIRST_LOOP = 10
"""Number of the first loop."""

ELSEWHERE = 1 << 16
"""Bytes where what is outside of an array is read from and written to, in checked code."""


class Module:
    """All functions that one leads to, each made once for each list of types that it is called with."""

    def __init__(self, checked: bool = False) -> None:
        self._checked = checked
        self._made: dict[tuple[CompiledFunction, tuple[Type, ...]], Called] = {}
        self._under_way: list[CompiledFunction] = []

    def call(self, loop: CompiledFunction, arguments: list[Type]) -> Called:
        """The function for arguments of these types; raises `TypeError` where it cannot be compiled."""
        key = (loop, tuple(arguments))
        if key not in self._made:
            if loop in self._under_way:
                raise TypeError(f"{loop.function.__name__} calls itself")
            self._under_way.append(loop)
            name = f"f{len(self._made)}.{len(self._under_way)}.{loop.function.__name__}"
            self._made[key] = FunctionBody(name, loop, arguments, self.call, self._checked).called
            self._under_way.pop()
        return self._made[key]

    def assembly(self, loop: CompiledFunction, arguments: list[Type]) -> tuple[str, Type]:
        """The module, and the type of what the function returns."""
        main = self.call(loop, arguments)
        bodies = [made.text for made in self._made.values()]
        outside = f"@outside = global i64 0\n@elsewhere = internal global [{ELSEWHERE} x i8] zeroinitializer, align 16"
        numbers = itertools.count(FIRST_LOOP)
        text = re.sub("!loop", lambda _: f"!{next(numbers)}", "\n".join(bodies))
        loops = [f"!{k} = distinct !{{!{k}, !9}}" for k in range(FIRST_LOOP, next(numbers))]
        direct = [_direct(main, len(arguments))] if {*arguments} == {INT} and main.result in (INT, NOTHING) else []
        return "\n".join([outside, MEMORY, text, _entry(main, arguments), *direct, ALIASES, *loops]), main.result


def _direct(main: Called, n: int) -> str:
    operands = ", ".join(f"i64 %a{k}" for k in range(n))
    call = f"{returned(operands_of(main.result))} @{main.name}({operands})"
    body = f"%r = call {call}\nret i64 %r" if main.result is INT else f"call {call}\nret i64 0"
    return f"define i64 @direct({operands}) {{\n{body}\n}}"


def _entry(main: Called, arguments: list[Type]) -> str:
    lines, operands = ["%heap = alloca ptr", "store ptr null, ptr %heap"], []
    for k, llvm in enumerate(llvm for kind in arguments for llvm in operands_of(kind)):
        lines.append(f"%p{k} = getelementptr i64, ptr %in, i64 {k}")
        lines.append(f"%x{k} = load {'i64' if llvm == 'i1' else llvm}, ptr %p{k}")
        if llvm == "i1":
            lines.append(f"%b{k} = icmp ne i64 %x{k}, 0")
        operands.append(f"{llvm} %{'b' if llvm == 'i1' else 'x'}{k}")
    if main.allocates:
        operands.insert(0, "ptr %heap")
    kinds = operands_of(main.result)
    call = f"call {returned(kinds)} @{main.name}({', '.join(operands)})"
    lines.append(call if not kinds else f"%r = {call}")
    for k, llvm in enumerate(kinds):
        whole = len(kinds) == 1
        x = "%r" if whole else f"%r{k}"
        if not whole:
            lines.append(f"{x} = extractvalue {returned(kinds)} %r, {k}")
        if llvm == "i1":
            lines.append(f"%w{k} = zext i1 {x} to i64")
            x = f"%w{k}"
        lines.append(f"%o{k} = getelementptr i64, ptr %out, i64 {k + 1}")
        lines.append(f"store {'i64' if llvm == 'i1' else llvm} {x}, ptr %o{k}")
    lines += ["%left = load ptr, ptr %heap", "store ptr %left, ptr %out"]
    if main.allocates and not has_arrays(main.result):
        lines += ["call void @release(ptr %heap, ptr null, ptr null, i64 0)", "store ptr null, ptr %out"]
    return "\n".join(["define void @entry(ptr %in, ptr %out) {", "start:", *lines, "ret void", "}"])
