// Named entity recognition with allennlp-models' `crf_tagger`, without ELMo, which
// ner_elmo.jsonnet adds.
//
//   allennlp train training_configs/ner.jsonnet -s OUT
//
// The data are small fixtures. For real results, use CoNLL 2003 and train for some tens of epochs.
{
  dataset_reader: { type: 'conll2003', tag_label: 'ner', coding_scheme: 'BIOUL' },
  train_data_path: 'fixtures/ner/train.conll',
  validation_data_path: 'fixtures/ner/dev.conll',

  model: {
    type: 'crf_tagger',
    label_encoding: 'BIOUL',
    text_field_embedder: { token_embedders: { tokens: { type: 'embedding', embedding_dim: 50 } } },
    encoder: { type: 'lstm', input_size: 50, hidden_size: 100, bidirectional: true },
    feedforward: { input_dim: 200, num_layers: 1, hidden_dims: 100, activations: 'tanh' },
    dropout: 0.5,
  },

  data_loader: { batch_size: 8, shuffle: true },
  trainer: {
    optimizer: { type: 'adam', lr: 0.001 },
    grad_norm: 5.0,
    num_epochs: 1,
    validation_metric: '+f1-measure-overall',
  },
}
