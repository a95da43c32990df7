"""6-D algebra over an explicit vocabulary of operations, for every backend that algorithms run on."""
