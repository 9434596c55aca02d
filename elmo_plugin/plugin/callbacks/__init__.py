"""Callbacks of AllenNLP's trainer."""
