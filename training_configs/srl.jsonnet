// SRL on OntoNotes 5 with allennlp-models' `srl` (He et al. 2017), without ELMo,
// which srl_elmo.jsonnet adds.
//
//   python -m elmo_plugin train training_configs/srl.jsonnet -s OUT
//
// The data are small fixtures. For real results, name the folders of OntoNotes in the format of
// CoNLL 2012, and GloVe's file if you have it:
//
//   (import 'training_configs/srl.jsonnet') + {
//     train_data_path: 'conll-2012/v12/data/train',
//     validation_data_path: 'conll-2012/v12/data/development',
//     glove:: 'glove.6B.100d.txt.gz',
//   }
//
// The numbers are from the paper, except the batch size, which is from the published AllenNLP
// config. The repository's docs/paper_tasks.md compares them. two_cores/srl.jsonnet is smaller.
{
  embedding_dim:: 100,
  binary_feature_dim:: 100,  // marks the verb; concatenated to the embedded text
  hidden_size:: 300,
  num_layers:: 8,  // alternating forward and backward
  glove:: null,

  dataset_reader: { type: 'srl' },
  train_data_path: 'fixtures/srl/train',
  validation_data_path: 'fixtures/srl/dev',

  model: {
    type: 'srl',
    text_field_embedder: {
      token_embedders: {
        tokens: {
          type: 'embedding', embedding_dim: $.embedding_dim, pretrained_file: $.glove,
        },
      },
    },
    encoder: {
      type: 'alternating_lstm',
      input_size: $.embedding_dim + $.binary_feature_dim,
      hidden_size: $.hidden_size,
      num_layers: $.num_layers,
      recurrent_dropout_probability: 0.1,
      use_highway: true,
    },
    binary_feature_dim: $.binary_feature_dim,
    initializer: { regexes: [['tag_projection_layer.*weight', 'orthogonal']] },
  },

  data_loader: { batch_sampler: { type: 'bucket', batch_size: 80 } },
  trainer: {
    optimizer: { type: 'adadelta', rho: 0.95 },
    grad_clipping: 1.0,
    num_epochs: 500,
    patience: 200,
    validation_metric: '+f1-measure-overall',
  },
}
