"""Cone problems of blocks that row groups couple sparsely, in compiled code; it knows neither links nor colliders.

`cone` has the laws of groups and `patches` those with spins; `sweeps` and `newton` solve islands, the latter with
`factor`; `dense` makes one of a dense problem. All work on the arrays of `records`.
"""
