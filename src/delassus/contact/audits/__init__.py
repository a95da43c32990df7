"""Contact steps of anyone, checked: a step as arrays, those of MuJoCo, and the audit."""
