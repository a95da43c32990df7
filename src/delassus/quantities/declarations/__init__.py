"""The declarations of what can be computed."""
