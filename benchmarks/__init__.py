"""How fast, beside what there was before, and beside what the machine could do at most."""
