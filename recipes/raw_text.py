"""
Raw text to one sentence a line, with spaces between tokens, by spaCy's rules for a language:

    python recipes/raw_text.py en FILE.. > TEXT
"""

import sys
from pathlib import Path

import spacy

language, *files = sys.argv[1:]
nlp = spacy.blank(language)
nlp.add_pipe("sentencizer")  # a trained pipeline, such as en_core_web_sm, finds ends better
for document in nlp.pipe(Path(file).read_text("utf-8") for file in files):
    for sentence in document.sents:
        tokens = [token.text for token in sentence if not token.is_space]
        if tokens:
            print(*tokens)
