"""``python -m delassus``: the command line."""

from delassus.cli import main

main()
