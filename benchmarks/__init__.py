"""Measures speed, compared with the peers and with the limit of the machine."""
