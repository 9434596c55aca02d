// Semantic role labelling with allennlp-models' `srl` (He et al. 2017), without ELMo, which
// srl_elmo.jsonnet adds.
//
//   allennlp train training_configs/srl.jsonnet -s OUT
//
// The data are small fixtures. For real results, use OntoNotes 5 and eight layers of size 300.
local embedding_dim = 50;
local binary_feature_dim = 50;  // marks the verb; concatenated to the embedded text

{
  dataset_reader: { type: 'srl' },
  train_data_path: 'fixtures/srl/train',
  validation_data_path: 'fixtures/srl/dev',

  model: {
    type: 'srl',
    text_field_embedder: {
      token_embedders: { tokens: { type: 'embedding', embedding_dim: embedding_dim } },
    },
    encoder: {
      type: 'alternating_lstm',
      input_size: embedding_dim + binary_feature_dim,
      hidden_size: 100,
      num_layers: 4,
      recurrent_dropout_probability: 0.1,
      use_highway: true,
    },
    binary_feature_dim: binary_feature_dim,
  },

  data_loader: { batch_size: 8, shuffle: true },
  trainer: {
    optimizer: { type: 'adadelta', rho: 0.95 },
    grad_norm: 1.0,
    num_epochs: 1,
    validation_metric: '+f1-measure-overall',
  },
}
