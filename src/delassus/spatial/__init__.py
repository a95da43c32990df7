"""6-D algebra over an explicit vocabulary of operations, for every machine that algorithms run on."""
