"""ELMo vectors: `Elmo`, its caches, and writing vectors to a file."""
