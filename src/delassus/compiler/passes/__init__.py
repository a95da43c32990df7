"""From graphs to graphs that compute the same."""
