// A part-of-speech tagger that reads ELMo vectors:
//
//   ELMO_ARCHIVE=OUT/model.tar.gz allennlp train training_configs/tagger_elmo.jsonnet \
//     --include-package elmo_plugin -s TAGGER
//
// where OUT is the output folder of training bilm.jsonnet. The lines with "elmo" in them put ELMo
// into the config; they are the same in any other.
local elmo_dim = 128;  // 2 x projection_dim

{
  dataset_reader: {
    type: 'sequence_tagging',
    token_indexers: { elmo: { type: 'elmo' } },
  },
  train_data_path: 'fixtures/tagging/train.tsv',
  validation_data_path: 'fixtures/tagging/dev.tsv',

  model: {
    type: 'simple_tagger',
    text_field_embedder: {
      token_embedders: {
        elmo: { type: 'elmo', archive_file: std.extVar('ELMO_ARCHIVE'), dropout: 0.2 },
      },
    },
    encoder: {
      type: 'lstm',
      input_size: elmo_dim,
      hidden_size: 64,
      bidirectional: true,
    },
    // As in the paper, a little L2 regularization draws the mix towards the average of the layers.
    regularizer: { regexes: [['scalar_parameters', { type: 'l2', alpha: 0.001 }]] },
  },

  data_loader: { batch_size: 8, shuffle: true },
  trainer: {
    optimizer: { type: 'adam', lr: 0.005 },
    num_epochs: 1,
    validation_metric: '+accuracy',
  },
}
