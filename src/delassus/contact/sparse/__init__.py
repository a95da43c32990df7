"""Time steps of scenes of many bodies, in compiled code: bodies are blocks that contacts couple sparsely.

`blocks` divides a scene; `motion` is that of blocks alone. `rows` makes row groups of contacts and islands of blocks,
which `delassus.solvers.islands` solves. `impact` and `step` put a time step together, `sleep` leaves out what rests.
All work on the arrays of `records`, which `stepper` makes.
"""
