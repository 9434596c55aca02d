// SQuAD (question answering) with allennlp-models' `bidaf` (Seo et al. 2017), without ELMo, which
// bidaf_elmo.jsonnet adds.
//
//   python -m elmo_plugin train training_configs/bidaf.jsonnet -s OUT
//
// The data are small fixtures. For real results, name SQuAD's files, and GloVe's if you have them:
//
//   (import 'training_configs/bidaf.jsonnet') + {
//     train_data_path: 'train-v1.1.json',
//     validation_data_path: 'dev-v1.1.json',
//     glove:: 'glove.6B.100d.txt.gz',
//   }
//
// The values are from the published AllenNLP config; the repository's docs/paper_tasks.md compares
// them with the paper's. two_cores/bidaf.jsonnet is smaller.
{
  embedding_dim:: 100,
  character_filters:: 100,
  hidden_size:: 100,  // of each direction of each LSTM
  glove:: null,
  local encoded = 2 * $.hidden_size,

  dataset_reader: {
    type: 'squad1',
    tokenizer: { type: 'spacy', language: 'blank:en' },
    token_indexers: {
      tokens: { type: 'single_id', lowercase_tokens: true },
      token_characters: {
        type: 'characters',
        // 259 and 260 are the start and the end of a word.
        character_tokenizer: { byte_encoding: 'utf-8', start_tokens: [259], end_tokens: [260] },
        min_padding_length: 5,  // the width of the filters
      },
    },
  },
  train_data_path: 'fixtures/squad/train.json',
  validation_data_path: 'fixtures/squad/dev.json',

  model: {
    type: 'bidaf',
    text_field_embedder: {
      token_embedders: {
        tokens: {
          type: 'embedding',
          embedding_dim: $.embedding_dim,
          pretrained_file: $.glove,
          trainable: $.glove == null,
        },
        token_characters: {
          type: 'character_encoding',
          embedding: { num_embeddings: 262, embedding_dim: 16 },
          encoder: {
            type: 'cnn',
            embedding_dim: 16,
            num_filters: $.character_filters,
            ngram_filter_sizes: [5],
          },
          dropout: 0.2,
        },
      },
    },
    num_highway_layers: 2,
    phrase_layer: {
      type: 'lstm',
      input_size: $.embedding_dim + $.character_filters,
      hidden_size: $.hidden_size,
      bidirectional: true,
    },
    matrix_attention: {
      type: 'linear',
      combination: 'x,y,x*y',
      tensor_1_dim: encoded,
      tensor_2_dim: encoded,
    },
    modeling_layer: {
      type: 'lstm',
      input_size: 4 * encoded,  // the passage, the attended question and their products
      hidden_size: $.hidden_size,
      num_layers: 2,
      dropout: 0.2,
      bidirectional: true,
    },
    span_end_encoder: {
      type: 'lstm',
      input_size: 4 * encoded + 3 * encoded,  // as above, and what the start was predicted from
      hidden_size: $.hidden_size,
      bidirectional: true,
    },
    dropout: 0.2,
  },

  data_loader: { batch_sampler: { type: 'bucket', batch_size: 40 } },
  trainer: {
    optimizer: { type: 'adam', betas: [0.9, 0.9] },
    learning_rate_scheduler: { type: 'reduce_on_plateau', factor: 0.5, mode: 'max', patience: 2 },
    grad_norm: 5.0,
    num_epochs: 20,
    patience: 10,
    validation_metric: '+em',
  },
}
