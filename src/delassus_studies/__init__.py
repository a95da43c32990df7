"""Benchmarks, claims of the papers, and peers: what ``delassus bench`` and ``delassus reproduce`` run.

`registry`
    every command: a row each
`timing`, `counters`, `count_ops`
    how times, operations and instructions are measured
`cases`, `loop_mechanisms`
    robots and constraints that are measured
`gpu`
    kernels for GPUs, assembled and counted where there is none, and their predicted speed
`bench`
    a module a benchmark: `measure`, `tables`, `draw`; those of contact in a room
`peers`
    Pinocchio, MuJoCo, CasADi, frax and Siconos, in one way
`claims`
    what papers say: rows of data beside the functions that measure them
`figures`
    how results are drawn
"""
