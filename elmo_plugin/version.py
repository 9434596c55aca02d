VERSION = "1.0.0"
"""The version of the package; see docs/stability.md."""
