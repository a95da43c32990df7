"""Functions that are loops over numbers and arrays, from their Python source to LLVM assembly.

`types` are those of numbers, arrays and tuples; `text` collects the instructions of a function, `expressions` and
`statements` translate its syntax tree, and `module` the functions that it leads to.
"""
