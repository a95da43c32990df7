"""The version, said here and in `CITATION.cff`."""

__version__ = "0.2.0"
