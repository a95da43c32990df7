"""The version, said here and in `CITATION.cff`."""

__version__ = "0.1.0"
