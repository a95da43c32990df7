"""C99 of programs, and of functions of CasADi."""
