"""Adds to AllenNLP's own trainer what a language model needs."""
