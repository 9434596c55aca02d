"""
Converts raw text to one sentence per line with spaces between tokens, using spaCy's rules:

    python recipes/raw_text.py en FILE.. > TEXT

Each line of a file is a paragraph; sentences do not cross lines.
"""

import fileinput
import sys

import spacy

if sys.argv[1:] in ([], ["--help"]):
    sys.exit(__doc__)
language, *files = sys.argv[1:]
nlp = spacy.blank(language)
nlp.add_pipe("sentencizer")  # a trained pipeline, such as en_core_web_sm, is more accurate
for paragraph in nlp.pipe(fileinput.input(files, encoding="utf-8-sig")):
    for sentence in paragraph.sents:
        # Vietnamese words may contain spaces.
        tokens = [token.text.replace(" ", "_") for token in sentence if not token.is_space]
        if tokens:
            print(*tokens)
