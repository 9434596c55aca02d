"""Commands that the plugin adds to `allennlp`."""
