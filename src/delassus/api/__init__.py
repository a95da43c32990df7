"""Direct functions: what users call, and what they get, at once; `direct` checks what comes and finds its program."""
