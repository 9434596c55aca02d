"""
Raw text to one sentence a line, with spaces between tokens, by spaCy's rules for a language:

    python recipes/raw_text.py en FILE.. > TEXT

A line of a file is a paragraph, where a sentence ends at the latest.
"""

import fileinput
import sys

import spacy

language, *files = sys.argv[1:]
nlp = spacy.blank(language)
nlp.add_pipe("sentencizer")  # a trained pipeline, such as en_core_web_sm, finds ends better
for paragraph in nlp.pipe(fileinput.input(files, encoding="utf-8")):
    for sentence in paragraph.sents:
        tokens = [token.text for token in sentence if not token.is_space]
        if tokens:
            print(*tokens)
