"""``python -m delassus``: the command line."""

from delassus.cli import main

if __name__ == "__main__":
    main()
