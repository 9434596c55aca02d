// A larger model than `small`: twice its cells, projection and filters, and the same text, held-out
// text and words of the softmax.
//
//   BILM_TEXT=FOLDER python -m elmo_plugin train training_configs/bilm_medium.jsonnet \
//     -s OUT
//
// The rate is constant, so that the training can be stopped after any part of the epoch. A last part
// continues from its best weights with a rate that falls to zero:
//
//   BILM_TEXT=FOLDER python -m elmo_plugin train training_configs/bilm_medium.jsonnet \
//     -s OUT/last -o '{"train_data_path": "PART",
//     "model.pretrained_file": "OUT/model.tar.gz", "trainer.learning_rate_scheduler.power": 1}'
(import 'bilm_small.jsonnet') + {
  vocabulary+: { corpus: std.extVar('BILM_TEXT') + '/train' },  // also for the last part
  model+: {
    char_cnn+: {
      filters: [[1, 16], [2, 32], [3, 80], [4, 128], [5, 192], [6, 256], [7, 320]],  // 1024
    },
    lstm+: { dim: 2048, projection_dim: 256 },  // 512-dimensional vectors
  },
  trainer+: {
    optimizer+: { lr: 0.002 },
    // Steps are counted by batch. A power of 0 keeps the rate after the warm-up; 1 lets it fall
    // linearly to zero.
    learning_rate_scheduler: { type: 'polynomial_decay', warmup_steps: 200, power: 0 },
    callbacks+: [{ type: 'validate_every', num_batches: 2000 }],  // keeps the best weights
  },
}
