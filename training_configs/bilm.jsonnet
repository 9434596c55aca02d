// A small biLM that trains in minutes on a laptop:
//
//   python -m elmo_plugin train training_configs/bilm.jsonnet -s OUT
//
// The text is Python's documentation and the docstrings of the installed packages. To train on your
// own text, write these lines:
//
//   (import 'training_configs/bilm.jsonnet') + {
//     train_data_path: 'my/text/*.txt',     // a file, a glob or a folder; plain, .gz, .xz or .zst;
//     validation_data_path: 'my/dev.txt',   // one sentence per line, tokens separated by whitespace
//   }
//
// bilm_small.jsonnet trains a better one in hours, and bilm_1b.jsonnet has the sizes of the paper.
{
  dataset_reader: { type: 'bilm' },
  train_data_path: 'docs://train',
  validation_data_path: 'docs://heldout',

  // The softmax predicts the words that occur at least three times (min_count: 3), at most 100,000
  // (max_size). Others are <UNK> in the softmax; the char CNN still reads them.
  vocabulary: { type: 'bilm', corpus: $.train_data_path },

  data_loader: {
    type: 'bilm',
    batch_size: 16,  // rows of text; each continues in the next window with its LSTM states
    window: 20,  // time steps of backpropagation (the paper's)
    // Number of windows after which a row restarts from zeros, the initial state in programs that read
    // the exported files. bilm-tf never restarts rows, and much more text needs no restarts.
    restart_every: 50,
  },
  validation_data_loader: self.data_loader { shuffle: null, restart_every: null },

  model: {
    type: 'bilm',
    char_cnn: {
      embedding: { dim: 16 },  // the paper's
      // [width, number of filters] for each length of character n-gram: the paper's numbers / 8.
      filters: [[1, 4], [2, 4], [3, 8], [4, 16], [5, 32], [6, 64], [7, 128]],
      n_highway: 1,
      activation: 'relu',
      max_characters_per_token: 50,  // UTF-8 bytes, including marks of the start and the end
    },
    lstm: {
      dim: 512,  // size of the memory cell
      projection_dim: 64,  // size of a layer's output; ELMo vectors are twice as long
      n_layers: 2,
      cell_clip: 3.0,
      proj_clip: 3.0,
      use_skip_connections: true,  // a residual connection around the second layer
    },
    dropout: 0.0,  // for more than four epochs try 0.2 (docs/finetuning.md)
    n_negative_samples: 1024,
  },

  trainer: {
    // experiments/models.md compares this with bilm-tf's recipe (bilm_tf.jsonnet).
    optimizer: { type: 'fused_adam', lr: 0.006 },  // AllenNLP's adam, faster
    learning_rate_scheduler: { type: 'linear_with_warmup', warmup_steps: 200 },  // then decay to zero
    // Three times the usual norm, against gradients that explode (experiments/models.md).
    grad_norm: 30.0,
    num_epochs: 1,
    validation_metric: '-perplexity',
    // Saves every five minutes and after each epoch; --recover resumes exactly.
    checkpointer: { type: 'bilm' },
    callbacks: [
      { type: 'learning_curve' },  // learning_curve.png in the output folder
      { type: 'keep_freed_memory' },  // steps on a CPU take up to a quarter less time
    ],
  },
}
