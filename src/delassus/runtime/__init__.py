"""Compiled kernels: machine code, its cache, and calling it with NumPy arrays."""
