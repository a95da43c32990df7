"""Constrained dynamics by elimination of links and rows from the leaves to the root: PV, PV-early, PV-soft."""
