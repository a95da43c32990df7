"""Contact steps as programs: candidates, the problem that they make, and the solvers of it."""
