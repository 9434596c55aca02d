// esim.jsonnet for two cores and some thousand pairs of sentences, for which its dropout of 0.5 and
// its learning rate are too cautious.
(import '../esim.jsonnet') + {
  dim:: 100,
  model+: { dropout: 0.2, output_feedforward+: { dropout: 0.2 } },
  trainer+: { optimizer+: { lr: 0.001 }, num_epochs: 15, patience: 3 },
}
