"""Fraction of the core's measured peak that kernels reach, and what bounds the rest.

Usage: python benchmarks/peak.py [FILE.json]; also ``delassus bench peak``.
"""

import sys
from pathlib import Path

from rich.console import Console

from delassus_studies.bench_peak import run

run(Console(), Path(sys.argv[1]) if len(sys.argv) > 1 else None)
