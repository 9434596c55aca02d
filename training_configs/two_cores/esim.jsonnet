// esim.jsonnet for two cores and some thousand pairs of sentences.
(import '../esim.jsonnet') + {
  dim:: 100,
  trainer+: { num_epochs: 15, patience: 3 },
}
