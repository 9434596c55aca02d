// coref.jsonnet for two cores and some ten documents, of which the first sentences are read.
(import '../coref.jsonnet') + {
  dataset_reader+: { max_sentences: 20 },
  embedding_dim:: 50,
  character_filters:: 50,
  hidden_size:: 50,
  feedforward_dim:: 50,
  trainer+: { num_epochs: 20, patience: 5 },
}
