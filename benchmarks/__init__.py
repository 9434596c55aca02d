"""Measures speed, next to that of the peers and to the limit of the machine."""
