"""Cost of compiled PV-OSIM, PV-OSIMr and auto against links and rows, with fitted slopes.

Usage: python benchmarks/scaling.py [OPTIONS], those of ``delassus bench scaling``, such as ``--json FILE.json``.
The figure goes to benchmarks/figures.
"""

import sys
from pathlib import Path

from delassus_studies.commands import bench_app

bench_app(["scaling", "--plot", str(Path(__file__).parent / "figures"), *sys.argv[1:]])
