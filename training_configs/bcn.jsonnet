// SST-5 (sentiment in five classes) with allennlp-models' `bcn` (McCann et al. 2017), without ELMo,
// which bcn_elmo.jsonnet adds.
//
//   python -m elmo_plugin train training_configs/bcn.jsonnet -s OUT
//   python -m elmo_plugin predict OUT/model.tar.gz TEXT.jsonl \
//     --predictor text_classifier
//
// The data are small fixtures. For real results, name SST's files of trees, and GloVe's if you have
// them:
//
//   (import 'training_configs/bcn.jsonnet') + {
//     train_data_path: 'trees/train.txt',
//     validation_data_path: 'trees/dev.txt',
//     glove:: 'glove.840B.300d.txt.gz',
//   }
//
// The values are from the published AllenNLP config; the repository's docs/paper_tasks.md compares
// them with the paper's. two_cores/bcn.jsonnet is smaller.
{
  dim:: 300,  // of the words and of each direction of each LSTM
  use_subtrees:: true,  // train with each phrase of a sentence
  glove:: null,
  local encoded = 2 * $.dim,
  local reader = { type: 'sst_tokens', granularity: '5-class' },

  dataset_reader: reader { use_subtrees: $.use_subtrees },
  validation_dataset_reader: reader { use_subtrees: false },
  train_data_path: 'fixtures/sst/train.txt',
  validation_data_path: 'fixtures/sst/dev.txt',

  model: {
    type: 'bcn',
    text_field_embedder: {
      token_embedders: {
        tokens: {
          type: 'embedding',
          embedding_dim: $.dim,
          pretrained_file: $.glove,
          trainable: $.glove == null,
        },
      },
    },
    embedding_dropout: 0.25,
    pre_encode_feedforward: {
      input_dim: $.dim,
      num_layers: 1,
      hidden_dims: $.dim,
      activations: 'relu',
      dropout: 0.25,
    },
    encoder: { type: 'lstm', input_size: $.dim, hidden_size: $.dim, bidirectional: true },
    integrator: {
      type: 'lstm',
      input_size: 3 * encoded,  // a word, the difference from what it attends to, their product
      hidden_size: $.dim,
      bidirectional: true,
    },
    integrator_dropout: 0.1,
    output_layer: {
      // The maximum, the minimum, the mean and the attended mean of the integrated words.
      input_dim: 4 * encoded,
      num_layers: 3,
      output_dims: [2 * encoded, encoded, 5],
      pool_sizes: 4,
      dropout: [0.2, 0.3, 0.0],
    },
  },

  data_loader: { batch_sampler: { type: 'bucket', batch_size: 100 } },
  trainer: {
    optimizer: { type: 'adam', lr: 0.001 },
    grad_norm: 5.0,
    num_epochs: 40,
    patience: 5,
    validation_metric: '+accuracy',
  },
}
