"""From text to windows: lines, characters, and encoded corpora and their cache."""
