"""Reads and writes bilm-tf's files. Only this package contains bilm-tf's names."""
