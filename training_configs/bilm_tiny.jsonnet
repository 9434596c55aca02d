// The model `tiny` in the package, for tests and a first look. It was trained with the commands of
// bilm_small.jsonnet; elmo_plugin/pretrained/tiny/README.md describes its text.
(import 'bilm_small.jsonnet') + {
  vocabulary+: { min_count: 2, max_size: 10000 },
  data_loader+: { batch_size: 32 },
  model+: {
    char_cnn+: {
      filters: [[1, 4], [2, 4], [3, 8], [4, 16], [5, 32], [6, 64]],  // 128
    },
    lstm+: { dim: 256, projection_dim: 32 },  // 64-dimensional vectors
    n_negative_samples: 1024,
  },
  trainer+: { optimizer+: { lr: 0.005 } },
}
