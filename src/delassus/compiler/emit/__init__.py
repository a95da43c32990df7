"""Targets: one file each, from a scheduled graph to code."""
