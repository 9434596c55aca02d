// bcn.jsonnet for two cores and some thousand sentences, without their phrases.
(import '../bcn.jsonnet') + {
  dim:: 100,
  use_subtrees:: false,
  trainer+: { num_epochs: 15, patience: 3 },
}
