// ner.jsonnet for two cores and some thousand sentences.
(import '../ner.jsonnet') + {
  character_filters:: 50,
  hidden_size:: 100,
  trainer+: { num_epochs: 20, patience: 5 },
}
