"""Rollouts: many time steps of many states in one call, their derivatives, and loops that stay closed."""
