"""Benchmarks, claims of the papers, and peers: what ``delassus bench`` and ``delassus reproduce`` run."""
