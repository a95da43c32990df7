"""Constrained rigid-body dynamics from Python."""
from delassus.errors import DelassusError, DelassusWarning
from delassus.model import load, mechanisms, Tree
