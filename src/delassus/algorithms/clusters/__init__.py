"""Algorithms over clusters of links that loops tie, one file each: loops hold by their coordinates, without drift.

`grouping` says which links are a cluster, `transmission` how their joints follow independent coordinates, `articulated`
is the sweep that `aba` and `efpa` start with.
"""
