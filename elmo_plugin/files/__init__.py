"""Files that appear whole, and are checked when they are read."""
