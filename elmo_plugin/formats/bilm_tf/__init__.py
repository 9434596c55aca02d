"""Reads and writes bilm-tf's files. bilm-tf's names appear only here."""
