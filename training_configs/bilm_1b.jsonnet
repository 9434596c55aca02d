// The biLM of Peters et al. (2018): 93.6 M parameters beside its softmax, trained for ten epochs on
// the 1 Billion Word Benchmark. It differs from bilm.jsonnet in sizes, in data, and in that no row
// starts from zeros again within an epoch (`restart_every`), since bilm-tf's never do.
//
//   BILM_TEXT=/data/1-billion-word allennlp train training_configs/bilm_1b.jsonnet \
//     --include-package elmo_plugin -s OUT
//
// The folder is the benchmark as it is unpacked (Chelba et al. 2014).
local text = std.extVar('BILM_TEXT');

(import 'bilm.jsonnet') + {
  train_data_path: text + '/training-monolingual.tokenized.shuffled/news.en-*',
  validation_data_path: text + '/heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050',

  // 793,471 words, `<S>`, `</S>` and `<UNK>` among them: all that occur three times or more.
  vocabulary+: { min_count: 3, max_size: 793471 },

  // Three GPUs read 128 rows each. One reads all 384; with AllenNLP's "distributed" block on three,
  // say 128 here.
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
    n_negative_samples: 8192,  // drawn anew for each batch and direction
    sparse_gradients: true,  // of 793,471 words a batch touches some 20,000
  },

  trainer+: {
    num_epochs: 10,
    // The same numbers as in bilm.jsonnet, with the clipping inside, for row-sparse gradients.
    optimizer: { type: 'clipped_adagrad', lr: 0.2, initial_accumulator_value: 1.0, grad_norm: 10.0 },
    grad_norm: false,  // null would be a norm to AllenNLP
    checkpointer+: { save_every_num_batches: 5000 },  // 100,088 batches are an epoch
  },
}
