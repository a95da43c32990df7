"""Seconds of cold compilations against the length of the program: chains of up to 1000 links.

Usage: python benchmarks/compile_time.py [OPTIONS], those of ``delassus bench compile``, such as ``--json FILE.json``.
The figure goes to benchmarks/figures.
"""

import sys
from pathlib import Path

from delassus_studies.commands import bench_app

bench_app(["compile", "--plot", str(Path(__file__).parent / "figures"), *sys.argv[1:]])
