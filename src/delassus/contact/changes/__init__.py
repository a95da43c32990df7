"""Derivatives of a time step of a scene, body by body: what a change of the state before it makes of that after it."""
