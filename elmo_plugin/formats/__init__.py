"""Finds what names a biLM, and reads and writes the formats of several programs."""
