"""From text to windows: lines, characters, encoded corpora and their cache, and prefetching."""
