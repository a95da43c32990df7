"""Compiled constrained dynamics and its derivatives beside Pinocchio and MuJoCo, on one core.

Usage: python benchmarks/dynamics.py [FILE.json]; also ``delassus bench dynamics``.
"""

import sys
from pathlib import Path

from rich.console import Console

from delassus_studies.bench_dynamics import run

run(Console(), Path(sys.argv[1]) if len(sys.argv) > 1 else None)
