"""Time steps of scenes of many bodies, in compiled code: bodies are blocks that contacts couple sparsely.

`blocks` divides a scene; `motion` is that of blocks alone. `rows` makes row groups of contacts and islands of blocks,
`cone` has the laws of groups, `sweeps` and `newton` solve islands, the latter with `factor`. `impact` and `step` put a
time step together, and `sleep` leaves out what rests. All work on the arrays of `records`, which `stepper` makes.
"""
