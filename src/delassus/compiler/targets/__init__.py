"""From programs to code: LLVM, C, CasADi."""
