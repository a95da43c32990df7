"""Benchmarks of contact: whole simulations, compiled steps, solvers alone; random problems to judge steps by."""
