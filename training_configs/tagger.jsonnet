// A POS tagger with learned word embeddings. tagger_elmo.jsonnet adds ELMo.
{
  dataset_reader: { type: 'sequence_tagging' },
  train_data_path: 'fixtures/tagging/train.tsv',
  validation_data_path: 'fixtures/tagging/dev.tsv',

  model: {
    type: 'simple_tagger',
    text_field_embedder: {
      token_embedders: { tokens: { type: 'embedding', embedding_dim: 64 } },
    },
    encoder: {
      type: 'lstm',
      input_size: 64,
      hidden_size: 64,
      bidirectional: true,
    },
  },

  data_loader: { batch_size: 8, shuffle: true },
  trainer: {
    optimizer: { type: 'adam', lr: 0.005 },
    num_epochs: 5,
    validation_metric: '+accuracy',
  },
}
