"""From a request to a program: a trace, cut into stages."""
