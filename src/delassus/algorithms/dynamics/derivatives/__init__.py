"""Derivatives of constrained dynamics and of time steps."""
