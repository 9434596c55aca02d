// A small biLM that a laptop trains in minutes:
//
//   allennlp train training_configs/bilm.jsonnet --include-package elmo_plugin -s OUT
//
// The text is what every installation already carries: Python's documentation and the docstrings of
// the installed packages. To train on your own, write three lines:
//
//   (import 'training_configs/bilm.jsonnet') + {
//     train_data_path: 'my/text/*.txt',     // a file, a glob or a folder; plain, .gz, .xz or .zst;
//     validation_data_path: 'my/dev.txt',   // one sentence a line, tokens separated by white space
//   }
//
// The sizes are the only thing small about it; bilm_1b.jsonnet has the paper's.
{
  dataset_reader: { type: 'bilm' },
  train_data_path: 'docs://train',
  validation_data_path: 'docs://heldout',

  vocabulary: {
    type: 'bilm',
    corpus: $.train_data_path,
    min_count: 2,  // a word seen once teaches the softmax nothing; its characters are read all the same
    max_size: 20000,
  },

  data_loader: {
    type: 'bilm',
    batch_size: 16,  // rows of text; each goes on from window to window, and the LSTMs' states with it
    window: 20,  // time steps through which the gradient flows (the paper's)
    // Windows after which a row starts from zeros again, as whoever reads the exported files does;
    // bilm-tf had none of it, and enough text to do without.
    restart_every: 50,
  },
  validation_data_loader: self.data_loader { shuffle: null, restart_every: null },

  model: {
    type: 'bilm',
    char_cnn: {
      embedding: { dim: 16 },  // the paper's
      // [width, number]: one for each length of character n-gram. The paper's, divided by 8.
      filters: [[1, 4], [2, 4], [3, 8], [4, 16], [5, 32], [6, 64], [7, 128]],
      n_highway: 1,
      activation: 'relu',
      max_characters_per_token: 50,  // bytes of UTF-8 and two marks
    },
    lstm: {
      dim: 512,  // of the memory
      projection_dim: 64,  // of what a layer hands on; ELMo vectors have twice that
      n_layers: 2,
      cell_clip: 3.0,
      proj_clip: 3.0,
      use_skip_connections: true,  // the residual around the second layer
    },
    dropout: 0.1,
    n_negative_samples: 1024,
  },

  trainer: {
    // Accumulators that start at 1 and clipping at 10 are made for gradients of loss x window, which
    // is what the model gives, as bilm-tf did.
    optimizer: { type: 'adagrad', lr: 0.2, initial_accumulator_value: 1.0 },
    grad_norm: 10.0,
    num_epochs: 1,
    validation_metric: '-perplexity',
    // Saves every five minutes and after each epoch; --recover resumes exactly from there.
    checkpointer: { type: 'bilm' },
    callbacks: [
      { type: 'learning_curve' },  // learning_curve.png in the output folder
      { type: 'keep_freed_memory' },  // steps on a CPU take up to a quarter less time
    ],
  },
}
