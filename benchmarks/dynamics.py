"""Compiled constrained dynamics and its derivatives beside Pinocchio and MuJoCo, on one core.

Usage: python benchmarks/dynamics.py [OPTIONS], those of ``delassus bench dynamics``, such as ``--json FILE.json``.
"""

import sys

from delassus_studies.commands import bench_app

bench_app(["dynamics", *sys.argv[1:]])
