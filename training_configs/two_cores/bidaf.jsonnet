// bidaf.jsonnet for two cores and some thousand questions.
(import '../bidaf.jsonnet') + {
  character_filters:: 50,
  hidden_size:: 50,
  trainer+: { num_epochs: 10, patience: 3 },
}
