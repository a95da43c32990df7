"""Fraction of the core's measured peak that kernels reach, and what bounds the rest.

Usage: python benchmarks/peak.py [OPTIONS], those of ``delassus bench peak``, such as ``--json FILE.json``.
"""

import sys

from delassus_studies.commands import bench_app

bench_app(["peak", *sys.argv[1:]])
