"""The language model `bilm`, its archives, and transfer to another vocabulary."""
