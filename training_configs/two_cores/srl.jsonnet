// srl.jsonnet for two cores and some ten thousand sentences.
(import '../srl.jsonnet') + {
  hidden_size:: 100,
  num_layers:: 4,
  trainer+: { num_epochs: 15, patience: 3 },
}
