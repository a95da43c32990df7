"""Time per step of the pendulum of spheres, its shares, and MuJoCo in the same run.

Usage: python benchmarks/contact_step.py [OPTIONS], those of ``delassus bench contact``, such as ``--json FILE.json``.
"""

import sys

from delassus_studies.commands import bench_app

bench_app(["contact", *sys.argv[1:]])
