"""Algorithms: pure functions on 6-D spatial quantities, one file each."""
