VERSION = "0.1.0"
"""The version of the package; see docs/stability.md."""
