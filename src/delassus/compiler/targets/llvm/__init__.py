"""LLVM assembly of programs, and their entries from Python and XLA."""
