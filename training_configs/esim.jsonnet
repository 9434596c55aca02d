// SNLI (textual entailment) with allennlp-models' `esim` (Chen et al. 2017), without ELMo, which
// esim_elmo.jsonnet adds.
//
//   python -m elmo_plugin train training_configs/esim.jsonnet -s OUT
//
// The data are small fixtures. For real results, name SNLI's files, and GloVe's if you have them:
//
//   (import 'training_configs/esim.jsonnet') + {
//     train_data_path: 'snli_1.0_train.jsonl',
//     validation_data_path: 'snli_1.0_dev.jsonl',
//     glove:: 'glove.840B.300d.txt.gz',
//   }
//
// The values are from the published AllenNLP config; the repository's docs/paper_tasks.md compares
// them with the paper's. two_cores/esim.jsonnet is smaller.
{
  dim:: 300,  // of the words and of each direction of each LSTM
  glove:: null,
  local encoded = 2 * $.dim,
  local lstm = { type: 'lstm', input_size: $.dim, hidden_size: $.dim, bidirectional: true },

  dataset_reader: {
    type: 'snli',
    tokenizer: { type: 'spacy', language: 'blank:en' },
    token_indexers: { tokens: { type: 'single_id', lowercase_tokens: true } },
  },
  train_data_path: 'fixtures/snli/train.jsonl',
  validation_data_path: 'fixtures/snli/dev.jsonl',

  model: {
    type: 'esim',
    text_field_embedder: {
      token_embedders: {
        tokens: { type: 'embedding', embedding_dim: $.dim, pretrained_file: $.glove },
      },
    },
    encoder: lstm,
    matrix_attention: 'dot_product',
    projection_feedforward: {
      input_dim: 4 * encoded,  // a sentence, what it attends to, their difference and product
      num_layers: 1,
      hidden_dims: $.dim,
      activations: 'relu',
    },
    inference_encoder: lstm,
    output_feedforward: {
      input_dim: 4 * encoded,  // the mean and the maximum of both sentences
      num_layers: 1,
      hidden_dims: $.dim,
      activations: 'relu',
      dropout: 0.5,
    },
    output_logit: { input_dim: $.dim, num_layers: 1, hidden_dims: 3, activations: 'linear' },
    dropout: 0.5,
    initializer: {
      regexes: [
        ['.*linear_layers.*weight', 'xavier_uniform'],
        ['.*linear_layers.*bias', 'zero'],
        ['.*weight_ih.*', 'xavier_uniform'],
        ['.*weight_hh.*', 'orthogonal'],
        ['.*bias_ih.*', 'zero'],
        ['.*bias_hh.*', 'lstm_hidden_bias'],
      ],
    },
  },

  data_loader: { batch_sampler: { type: 'bucket', batch_size: 32 } },
  trainer: {
    optimizer: { type: 'adam', lr: 0.0004 },
    learning_rate_scheduler: { type: 'reduce_on_plateau', factor: 0.5, mode: 'max', patience: 0 },
    grad_norm: 10.0,
    num_epochs: 75,
    patience: 5,
    validation_metric: '+accuracy',
  },
}
