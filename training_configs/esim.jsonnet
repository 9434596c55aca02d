// Textual entailment with allennlp-models' `esim` (Chen et al. 2017), without ELMo, which
// esim_elmo.jsonnet adds.
//
//   allennlp train training_configs/esim.jsonnet -s OUT
//
// The data are small fixtures. For real results, use SNLI, set dim to 300, and train until the
// validation accuracy stops rising.
local dim = 50;
local lstm(input_size) = {
  type: 'lstm', input_size: input_size, hidden_size: dim, bidirectional: true,
};
local layer(input_dim, hidden_dim, activation, dropout) = {
  input_dim: input_dim,
  num_layers: 1,
  hidden_dims: hidden_dim,
  activations: activation,
  dropout: dropout,
};

{
  dataset_reader: { type: 'snli', tokenizer: 'just_spaces' },
  train_data_path: 'fixtures/snli/train.jsonl',
  validation_data_path: 'fixtures/snli/dev.jsonl',

  model: {
    type: 'esim',
    text_field_embedder: { token_embedders: { tokens: { type: 'embedding', embedding_dim: dim } } },
    encoder: lstm(dim),
    matrix_attention: 'dot_product',
    projection_feedforward: layer(4 * 2 * dim, dim, 'relu', 0.5),
    inference_encoder: lstm(dim),
    output_feedforward: layer(4 * 2 * dim, dim, 'relu', 0.5),
    output_logit: layer(dim, 3, 'linear', 0.0),
    dropout: 0.5,
  },

  data_loader: { batch_size: 8, shuffle: true },
  trainer: {
    optimizer: { type: 'adam', lr: 0.0004 },
    grad_norm: 10.0,
    num_epochs: 1,
    validation_metric: '+accuracy',
  },
}
