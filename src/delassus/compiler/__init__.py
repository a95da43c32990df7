"""From a traced algorithm to an expression graph, counted and cleaned."""
