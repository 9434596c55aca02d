// A small BiDAF (Seo et al. 2017) on a part of SQuAD 1.1, for `python -m experiments.finetuning`.
local dim = 50;
local lstm(input_size) = {
  type: 'lstm', input_size: input_size, hidden_size: dim, bidirectional: true,
};
{
  dataset_reader: {
    type: 'squad1',
    tokenizer: { type: 'spacy', language: 'blank:en' },
  },
  train_data_path: std.extVar('DATA') + '/squad/squad1.1dev-train.json',
  validation_data_path: std.extVar('DATA') + '/squad/squad1.1dev-dev.json',
  model: {
    type: 'bidaf',
    text_field_embedder: { token_embedders: { tokens: { type: 'embedding', embedding_dim: dim } } },
    num_highway_layers: 1,
    phrase_layer: lstm(dim),
    matrix_attention: {
      type: 'linear', combination: 'x,y,x*y', tensor_1_dim: 2 * dim, tensor_2_dim: 2 * dim,
    },
    modeling_layer: lstm(8 * dim),
    span_end_encoder: lstm(14 * dim),
    dropout: 0.2,
  },
  data_loader: { batch_size: 16, shuffle: true },
  trainer: {
    optimizer: { type: 'adam', lr: 1e-3 },
    grad_norm: 5.0,
    num_epochs: 3,
    validation_metric: '+em',
  },
}
