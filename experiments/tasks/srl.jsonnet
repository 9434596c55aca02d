// Semantic role labelling on the English Web Treebank, for `python -m experiments.finetuning`, with
// one LSTM layer and 25,600 of the predicates.
local dim = 50;
{
  dataset_reader: { type: 'srl' },
  train_data_path: std.extVar('DATA') + '/srl/ewt-propbank/train',
  validation_data_path: std.extVar('DATA') + '/srl/ewt-propbank/dev',
  model: {
    type: 'srl',
    text_field_embedder: { token_embedders: { tokens: { type: 'embedding', embedding_dim: dim } } },
    encoder: { type: 'lstm', input_size: 2 * dim, hidden_size: 100, bidirectional: true },
    binary_feature_dim: dim,
  },
  data_loader: { batch_size: 32, shuffle: true, batches_per_epoch: 400 },
  validation_data_loader: { batch_size: 64 },
  trainer: {
    optimizer: { type: 'adam', lr: 1e-3 },
    grad_norm: 1.0,
    num_epochs: 2,
    validation_metric: '+f1-measure-overall',
  },
}
