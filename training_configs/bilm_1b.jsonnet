// The biLM of Peters et al. (2018): 93.6 M parameters without its softmax, trained for ten epochs
// on the 1 Billion Word Benchmark. It differs from bilm_tf.jsonnet in sizes and data, and no row
// restarts from zeros within an epoch (`restart_every`), as in bilm-tf.
//
//   BILM_TEXT=/data/1-billion-word python -m elmo_plugin train training_configs/bilm_1b.jsonnet \
//     -s OUT
//
// The folder is the unpacked benchmark (Chelba et al. 2014).
local text = std.extVar('BILM_TEXT');

(import 'bilm_tf.jsonnet') + {
  train_data_path: text + '/training-monolingual.tokenized.shuffled/news.en-*',
  validation_data_path: text + '/heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050',

  // The 793,471 words include `<S>`, `</S>` and `<UNK>`; all words occur three times or more.
  vocabulary+: { min_count: 3, max_size: 793471 },

  // The paper used three GPUs with 128 rows each. One GPU reads all 384 rows; for three, add
  // AllenNLP's block "distributed" and set this to 128.
  data_loader+: { batch_size: 384, restart_every: null },
  validation_data_loader+: { batch_size: 128 },

  model+: {
    char_cnn+: {
      // 2,048 filters; Kim et al. (2016) chose the widths, Jozefowicz et al. (2016) the numbers.
      filters: [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
      n_highway: 2,
    },
    lstm+: {
      dim: 4096,
      projection_dim: 512,  // ELMo vectors have 1,024
    },
    n_negative_samples: 8192,  // drawn for each batch and direction
    sparse_gradients: true,  // a batch uses some 20,000 of the 793,471 words
  },

  trainer+: {
    num_epochs: 10,
    // The numbers are from bilm_tf.jsonnet; this optimizer also clips row-sparse gradients.
    optimizer: { type: 'clipped_adagrad', lr: 0.2, initial_accumulator_value: 1.0, grad_norm: 10.0 },
    grad_norm: false,  // AllenNLP would read null as a norm
    checkpointer+: { save_every_num_seconds: 1800 },  // a checkpoint has about 4 GB
  },
}
