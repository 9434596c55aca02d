"""Text for AllenNLP: vocabulary, dataset reader, data loader, token indexer, texts by address."""
