"""Additions to AllenNLP's trainer for language models."""
