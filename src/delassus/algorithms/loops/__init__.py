"""Closed loops: configurations that close them, and what independent coordinates make of the others."""
