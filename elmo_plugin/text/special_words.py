from elmo_plugin.text.characters import BEGIN_TOKEN, END_TOKEN

UNKNOWN_TOKEN = "<UNK>"
SPECIAL_WORDS = (BEGIN_TOKEN, END_TOKEN, UNKNOWN_TOKEN)
"""First words of every corpus and every vocabulary."""
BEGIN, END, UNKNOWN = range(3)
"""Ranks of `SPECIAL_WORDS`."""
