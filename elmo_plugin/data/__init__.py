"""From text to batches: characters, encoded corpora, vocabulary, reader, loader and indexer."""
