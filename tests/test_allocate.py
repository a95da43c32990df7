"""Registers and memory: an allocation computes what its graph does, within the registers that there are."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delassus as ds
from delassus.compiler.passes.allocate import Act, allocate
from internals import SEMANTICS, Graph, Op, arity, interpret, llvm_parts, overlap
from programs import delassus_program, graphs, same, verify


def outputs_of(graph: Graph) -> list[int]:
    return [int(k) for group in graph.outputs for k in group]


def run(graph: Graph, allocation, x: np.ndarray) -> list[np.ndarray]:
    """Carry out the steps of an allocation as a machine would that knows only slots, inputs and written outputs."""
    written: dict[int, np.ndarray] = {}
    memory: dict[int, np.ndarray] = {}
    wanted = set(outputs_of(graph))

    def leaf(k: int) -> np.ndarray:
        if graph.op[k] == Op.CONSTANT:
            return np.full(x.shape[:-1], graph.value[k])
        return x[..., graph.a[k]]

    for part in allocation.parts:
        registers: dict[int, np.ndarray] = {}
        for act, k, slot in part:
            if act == Act.STORE:
                memory[slot] = registers[k]
            elif act == Act.LOAD:
                registers[k] = memory[slot] if slot >= 0 else written[k] if k in written else leaf(k)
            else:
                operands = [int(c[k]) for c in (graph.a, graph.b, graph.c)[: arity(int(graph.op[k]))]]
                values = [leaf(o) if graph.op[o] == Op.CONSTANT else registers[o] for o in operands]
                with np.errstate(all="ignore"):
                    registers[k] = SEMANTICS[int(graph.op[k])](*values)
                if k in wanted:
                    written[k] = registers[k]
    whole = [written[k] if k in written else leaf(k) for k in outputs_of(graph)]
    return np.stack(whole, axis=-1) if whole else np.zeros((*x.shape[:-1], 0))


def most_in_registers(graph: Graph, allocation) -> int:
    """Largest number of values held at once: a value is let go of after its last use before it is loaded again."""
    most = 0
    for part in allocation.parts:
        last: dict[int, int] = {}
        begin: dict[int, list[int]] = {}
        for t, (act, k, _) in enumerate(part):
            if act in (Act.LOAD, Act.COMPUTE):
                begin.setdefault(k, []).append(t)
                last[t] = t
            if act == Act.COMPUTE:
                for c in (graph.a, graph.b, graph.c)[: arity(int(graph.op[k]))]:
                    if int(c[k]) in begin:
                        last[begin[int(c[k])][-1]] = t
            if act == Act.STORE:
                last[begin[k][-1]] = t
        change = np.zeros(len(part) + 1, dtype=int)
        for start, end in last.items():
            change[start] += 1
            change[end] -= 1
        most = max(most, int(np.cumsum(change).max(initial=0)))
    return most


@given(graphs(), st.integers(3, 6), st.integers(1, 30), st.integers(0, 10**6))
def test_steps_compute_the_graph(graph, registers, length, seed):
    x = np.random.default_rng(seed).normal(size=(4, 8))
    allocation = allocate(graph, outputs_of(graph), registers, length)
    same(run(graph, allocation, x), np.concatenate(interpret(graph, x), axis=-1))


@cache
def of_humanoid():
    tree = ds.mechanisms.humanoid()
    feet = [ds.Weld("left_foot"), ds.Weld("right_foot")]
    return tree, delassus_program("humanoid", tree, feet, "pv-osimr").graph


@pytest.mark.slow
@pytest.mark.parametrize("registers", [11, 27])
@pytest.mark.parametrize("length", [200, 10**6])
def test_a_kernel_fits_its_registers(registers, length):
    tree, graph = of_humanoid()
    allocation = allocate(graph, outputs_of(graph), registers, length)
    x = tree.random(0, batch=5)
    same(run(graph, allocation, x), np.concatenate(interpret(graph, x), axis=-1))
    assert most_in_registers(graph, allocation) <= registers + 3  # operands of the operation under way
    stores = sum(act == Act.STORE for part in allocation.parts for act, _, _ in part)
    assert allocation.n_slots < 0.8 * stores  # slots are used again
    lengths = [sum(act == Act.COMPUTE for act, _, _ in part) for part in allocation.parts]
    assert max(lengths) <= length and max(lengths) - min(lengths) <= 1


def test_fewer_registers_cost_more_memory():
    tree = ds.mechanisms.humanoid()
    graph = delassus_program("humanoid", tree, [ds.Weld("left_foot")], "pv-osim").graph
    parts = [allocate(graph, outputs_of(graph), r, 10**6).parts for r in (11, 27, 10**6)]
    stores = [sum(act == Act.STORE for part in some for act, _, _ in part) for some in parts]
    assert stores[0] > stores[1] > stores[2] == 0


def cycles(graph, ahead=100):
    """Cycles of a processor that begins what is ready of its next ``ahead`` operations, two of a kind in each."""
    nodes, done, cycle = graph.nodes(), dict[int, int](), 0
    left = [k for k, (op, *_) in enumerate(nodes) if op >= Op.ADD]
    while left:
        free = [2, 2]
        for k in left[:ahead]:
            op, *operands = nodes[k]
            kind = op in (Op.ADD, Op.SUBTRACT)
            if free[kind] and all(
                done.get(x, 0 if nodes[x][0] < Op.ADD else cycle + 1) <= cycle for x in operands[: arity(op)]
            ):
                free[kind] -= 1
                done[k] = cycle + 4
        left = [k for k in left if k not in done]
        cycle += 1
    return cycle


@given(graphs() | graphs(kinds=(Op.ADD, Op.SUBTRACT, Op.MULTIPLY)), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_overlapping_operations_are_the_same(graph, registers, seed):
    made = overlap(graph, registers)
    verify(made)
    assert sorted(op for op, *_ in made.nodes()) == sorted(op for op, *_ in graph.nodes())
    x = np.random.default_rng(seed).standard_normal((3, 8))
    for new, old in zip(interpret(made, x), interpret(graph, x), strict=True):
        same(new, old)


@pytest.mark.slow
def test_operations_wait_less():
    """On an imaginary processor, for a few more values in memory."""
    _, graph = of_humanoid()
    made = overlap(graph, 27)
    assert cycles(made, 30) < 0.8 * cycles(graph, 30)
    slots = [allocate(g, outputs_of(g), 27, 10**6).n_slots for g in (graph, made)]
    assert slots[1] < 1.2 * slots[0]


@pytest.mark.slow
def test_cut_kernels_compute_the_same(monkeypatch):
    """One part or many, one state or many: the numbers are those of the interpreter's order of operations."""
    monkeypatch.setenv("DELASSUS_CACHE", "off")
    tree, feet = ds.mechanisms.star(2, 3), [ds.Weld("branch1_3"), ds.Weld("branch2_3")]
    q = tree.random(3, batch=41)
    reference = ds.delassus(tree, feet, q, method="dense")
    for part in (50, 10**6):
        monkeypatch.setattr(llvm_parts, "PART", part)
        kernel = ds.compile(tree, feet)
        assert np.max(np.abs(kernel(q) - reference)) < 1e-11 * np.max(np.abs(reference))
        for n in range(1, 41):  # blocks that overlap, one or two at once
            assert np.max(np.abs(kernel(q[:n], threads=1) - reference[:n])) < 1e-11 * np.max(np.abs(reference))
