"""The steps from text to batches: characters, encoded corpora, vocabulary, reader and loader."""
