"""What the formulations of [OS] cost: sizes, assembly, steps and simulations of a pendulum (Tables 1 and 2).

Usage: python benchmarks/contact_formulations.py [OPTIONS], those of ``delassus reproduce contact``, such as
``--json FILE.json``. The figures go to benchmarks/figures.
"""

import sys
from pathlib import Path

from delassus_studies.commands import reproduce_app

reproduce_app(["contact", "--plot", str(Path(__file__).parent / "figures"), *sys.argv[1:]])
