"""Models of allennlp-models with ELMo at the output of their encoder."""
