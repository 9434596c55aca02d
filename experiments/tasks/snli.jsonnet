// A small ESIM (Chen et al. 2017) on a part of SNLI, for `python -m experiments.finetuning`.
local dim = 50;
local lstm = { type: 'lstm', input_size: dim, hidden_size: dim, bidirectional: true };
local layer(input_dim, hidden_dim, activation, dropout) = {
  input_dim: input_dim,
  num_layers: 1,
  hidden_dims: hidden_dim,
  activations: activation,
  dropout: dropout,
};
{
  dataset_reader: { type: 'snli', tokenizer: { type: 'spacy', language: 'blank:en' } },
  train_data_path: std.extVar('DATA') + '/snli/snli_dev_as_train.jsonl',
  validation_data_path: std.extVar('DATA') + '/snli/snli_dev_as_dev.jsonl',
  model: {
    type: 'esim',
    text_field_embedder: { token_embedders: { tokens: { type: 'embedding', embedding_dim: dim } } },
    encoder: lstm,
    matrix_attention: 'dot_product',
    projection_feedforward: layer(4 * 2 * dim, dim, 'relu', 0.2),
    inference_encoder: lstm,
    output_feedforward: layer(4 * 2 * dim, dim, 'relu', 0.2),
    output_logit: layer(dim, 3, 'linear', 0.0),
    dropout: 0.2,
  },
  data_loader: { batch_size: 32, shuffle: true },
  trainer: {
    optimizer: { type: 'adam', lr: 0.002 },
    grad_norm: 10.0,
    num_epochs: 4,
    validation_metric: '+accuracy',
  },
}
