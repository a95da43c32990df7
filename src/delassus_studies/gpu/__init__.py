"""Kernels for GPUs where there is none: assembled by `ptxas`, counted, and their speed predicted.

`assembled`
    PTX → machine code of a GPU, with registers, stack and bytes of spills
`sass`
    the instructions of that code, how often each runs for a state, and how many cycles a warp waits
`predicted`
    states per second on a device of known size, and what bounds them
"""
