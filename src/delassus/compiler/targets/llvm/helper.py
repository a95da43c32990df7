"""LLVM assembly of a helper: a thread that takes part in calls, and stays awake for a while after each.

``help(helper)`` is what the thread runs, for good. ``share(helper, span, arrays, n)`` is a call of n states: the caller
takes states from the first on, the helper from the last, each a quarter of what is left at a time, in whole units of
`UNIT` states, so that all are computed as on one thread. ``span(arrays, first, n)`` computes some of them. The caller
offers its job in ``%box``. What the helper has not taken by the time that no states are left, the caller takes back:
nobody waits for a thread that has not begun. Of several callers at once, one has the helper, the others work alone.

A helper that finds no job yields its processor and looks again, for `AWAKE` nanoseconds; then it waits for a lock of
Python's, which the next caller releases. Where other threads want its processor, it is away for longer than `CROWDED`,
and callers that wait for it lose more than they gain. They do without it then for `PAUSE` times as long, at most
`LONGEST`, so that they lose a small part of their time.
"""

from __future__ import annotations

UNIT = 32
"""States: a multiple of what a block has."""

HELPED = 2_500_000
"""Operations of a call from which it pays to share it, even with a helper that has to wake up."""

AWAKE, CROWDED, LONGEST = 200_000, 50_000, 256_000_000
"""Nanoseconds; see above."""

PAUSE = 16
"""See above."""

FIELDS = (
    *("share", "acquire", "release", "yield", "time", "clock", "lock"),
    *("box", "busy", "taken", "awake", "rest"),
)
"""Fields of a helper, 8 bytes each: functions of this module, of Python and of the system, number of a clock, lock,
job that is offered, whether the helper is at one, whether a caller has it, whether it is awake, and until when callers
do without it."""


def helper_module() -> str:
    """Assembly of ``help`` and ``share``."""
    places = "\n".join(
        f"  %{name} = getelementptr i64, ptr %helper, i64 {k}" for k, name in enumerate(FIELDS) if name != "share"
    )
    return _TEXT.replace("PLACES", places).replace("UNITS", str(-UNIT)).replace("UNIT", str(UNIT))


_TEXT = f"""
%job = type {{ i64, ptr, ptr }} ; the first state that is left and the end of them, 32 bits each; span; arrays

define internal void @take(ptr %job, i1 %upward) nounwind {{
entry:
  %span.at = getelementptr %job, ptr %job, i64 0, i32 1
  %span = load ptr, ptr %span.at
  %arrays.at = getelementptr %job, ptr %job, i64 0, i32 2
  %arrays = load ptr, ptr %arrays.at
  br label %next
next:
  %ends = load atomic i64, ptr %job seq_cst, align 8
  %first = lshr i64 %ends, 32
  %last = and i64 %ends, 4294967295
  %left = sub i64 %last, %first
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %choose, label %end
choose:
  %quarter = lshr i64 %left, 2
  %more = add i64 %quarter, UNIT
  %whole = and i64 %more, UNITS
  %beyond = urem i64 %last, UNIT
  %ragged = icmp ne i64 %beyond, 0
  %tail = add i64 %beyond, UNIT
  %is.tail = select i1 %upward, i1 false, i1 %ragged
  %wanted = select i1 %is.tail, i64 %tail, i64 %whole
  %others = sub i64 %left, %wanted
  %all = icmp slt i64 %others, UNIT
  %size = select i1 %all, i64 %left, i64 %wanted
  %further = add i64 %first, %size
  %before = sub i64 %last, %size
  %new.first = select i1 %upward, i64 %further, i64 %first
  %new.last = select i1 %upward, i64 %last, i64 %before
  %shifted = shl i64 %new.first, 32
  %new = or i64 %shifted, %new.last
  %exchange = cmpxchg ptr %job, i64 %ends, i64 %new seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %mine, label %compute, label %next
compute:
  %begin = select i1 %upward, i64 %first, i64 %before
  call void %span(ptr %arrays, i64 %begin, i64 %size)
  br label %next
end:
  ret void
}}

define internal i64 @now(ptr %helper) nounwind {{
PLACES
  %both = alloca [2 x i64]
  %function = load ptr, ptr %time
  %which = load i32, ptr %clock
  %ignored = call i32 %function(i32 %which, ptr %both)
  %seconds = load i64, ptr %both
  %rest.at = getelementptr i64, ptr %both, i64 1
  %nanoseconds = load i64, ptr %rest.at
  %all = mul i64 %seconds, 1000000000
  %now = add i64 %all, %nanoseconds
  ret i64 %now
}}

define internal void @withdraw(ptr %helper, i64 %now, i64 %away) nounwind {{
PLACES
  %many = mul i64 %away, {PAUSE}
  %long = icmp sgt i64 %many, {LONGEST}
  %pause = select i1 %long, i64 {LONGEST}, i64 %many
  %until = add i64 %now, %pause
  store atomic i64 %until, ptr %rest seq_cst, align 8
  ret void
}}

define void @help(ptr %helper) nounwind {{
entry:
PLACES
  %acquire.it = load ptr, ptr %acquire
  %yield.it = load ptr, ptr %yield
  %its.lock = load ptr, ptr %lock
  br label %sleep
sleep:
  %ignored = call i32 %acquire.it(ptr %its.lock, i32 1)
  %woken = call i64 @now(ptr %helper)
  br label %look
look:
  %last = phi i64 [ %woken, %sleep ], [ %done, %work ], [ %last, %wait ]
  %before = phi i64 [ %woken, %sleep ], [ %done, %work ], [ %now, %wait ]
  %offered = load atomic i64, ptr %box seq_cst, align 8
  %any = icmp ne i64 %offered, 0
  br i1 %any, label %accept, label %idle
accept:
  %accepted = atomicrmw xchg ptr %box, i64 0 seq_cst
  %still = icmp ne i64 %accepted, 0
  br i1 %still, label %work, label %idle
work:
  %job = inttoptr i64 %accepted to ptr
  call void @take(ptr %job, i1 false)
  store atomic i64 0, ptr %busy seq_cst, align 8
  %done = call i64 @now(ptr %helper)
  br label %look
idle:
  %yielded = call i32 %yield.it()
  %now = call i64 @now(ptr %helper)
  %gap = sub i64 %now, %before
  %crowded = icmp sgt i64 %gap, {CROWDED}
  br i1 %crowded, label %leave, label %wait
wait:
  %since = sub i64 %now, %last
  %long = icmp sgt i64 %since, {AWAKE}
  br i1 %long, label %doze, label %look
leave:
  call void @withdraw(ptr %helper, i64 %now, i64 %gap)
  br label %doze
doze:
  store atomic i64 0, ptr %awake seq_cst, align 8
  br label %sleep
}}

define void @share(ptr %helper, ptr %span, ptr %arrays, i64 %n) nounwind {{
entry:
PLACES
  %job = alloca %job
  store i64 %n, ptr %job
  %span.at = getelementptr %job, ptr %job, i64 0, i32 1
  store ptr %span, ptr %span.at
  %arrays.at = getelementptr %job, ptr %job, i64 0, i32 2
  store ptr %arrays, ptr %arrays.at
  %take.it = cmpxchg ptr %taken, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %take.it, 1
  br i1 %mine, label %see, label %alone
alone:
  call void @take(ptr %job, i1 true)
  ret void
see:
  %start = call i64 @now(ptr %helper)
  %until = load atomic i64, ptr %rest seq_cst, align 8
  %rested = icmp sge i64 %start, %until
  br i1 %rested, label %rouse, label %work
rouse:
  %was.awake = atomicrmw xchg ptr %awake, i64 1 seq_cst
  %slept = icmp eq i64 %was.awake, 0
  br i1 %slept, label %wake, label %offer
wake:
  %release.it = load ptr, ptr %release
  %its.lock = load ptr, ptr %lock
  call void %release.it(ptr %its.lock)
  br label %offer
offer:
  store atomic i64 1, ptr %busy seq_cst, align 8
  %number = ptrtoint ptr %job to i64
  store atomic i64 %number, ptr %box seq_cst, align 8
  call void @take(ptr %job, i1 true)
  %take.back = cmpxchg ptr %box, i64 %number, i64 0 seq_cst seq_cst
  %unused = extractvalue {{ i64, i1 }} %take.back, 1
  br i1 %unused, label %unbusy, label %end
unbusy:
  store atomic i64 0, ptr %busy seq_cst, align 8
  br label %free
end:
  %ended = call i64 @now(ptr %helper)
  br label %wait
wait:
  %at.work = load atomic i64, ptr %busy seq_cst, align 8
  %over = icmp eq i64 %at.work, 0
  br i1 %over, label %together, label %stay
stay:
  %yield.it = load ptr, ptr %yield
  %yielded = call i32 %yield.it()
  br label %wait
together:
  %now = call i64 @now(ptr %helper)
  %waited = sub i64 %now, %ended
  %late = icmp sgt i64 %waited, {CROWDED}
  br i1 %late, label %withdraw, label %free
withdraw:
  call void @withdraw(ptr %helper, i64 %now, i64 %waited)
  br label %free
work:
  call void @take(ptr %job, i1 true)
  br label %free
free:
  store atomic i64 0, ptr %taken seq_cst, align 8
  ret void
}}
"""
