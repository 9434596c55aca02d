// Coreference resolution on OntoNotes 5 with allennlp-models' `coref` (Lee et al. 2017), without
// ELMo, which coref_elmo.jsonnet adds.
//
//   python -m elmo_plugin train training_configs/coref.jsonnet -s OUT
//
// The data are small fixtures. For real results, name the files of CoNLL 2012, and GloVe's if you
// have them:
//
//   (import 'training_configs/coref.jsonnet') + {
//     train_data_path: 'train.english.v4_gold_conll',
//     validation_data_path: 'dev.english.v4_gold_conll',
//     glove:: 'glove.6B.300d.txt.gz',
//   }
//
// The values are from the published AllenNLP config; the repository's docs/paper_tasks.md compares
// them with the paper's. two_cores/coref.jsonnet is smaller.
{
  embedding_dim:: 300,
  character_filters:: 100,
  hidden_size:: 200,  // of each direction
  feedforward_dim:: 150,
  glove:: null,

  local max_span_width = 10,
  local feature_size = 20,  // of the features width and distance
  local embedded = $.embedding_dim + $.character_filters,
  // A span is its two ends, its width and the attended mean of its words.
  local span = 2 * (2 * $.hidden_size) + feature_size + embedded,
  local feedforward(input_dim) = {
    input_dim: input_dim,
    num_layers: 2,
    hidden_dims: $.feedforward_dim,
    activations: 'relu',
    dropout: 0.2,
  },

  dataset_reader: {
    type: 'coref',
    max_span_width: max_span_width,
    token_indexers: {
      tokens: { type: 'single_id' },
      token_characters: { type: 'characters', min_padding_length: 5 },  // the width of the filters
    },
  },
  train_data_path: 'fixtures/coref/train.gold_conll',
  validation_data_path: 'fixtures/coref/dev.gold_conll',

  model: {
    type: 'coref',
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
          embedding: { vocab_namespace: 'token_characters', embedding_dim: 16 },
          encoder: {
            type: 'cnn',
            embedding_dim: 16,
            num_filters: $.character_filters,
            ngram_filter_sizes: [5],
          },
        },
      },
    },
    context_layer: {
      type: 'lstm', input_size: embedded, hidden_size: $.hidden_size, bidirectional: true,
    },
    mention_feedforward: feedforward(span),
    antecedent_feedforward: feedforward(3 * span + feature_size),  // both, their product, distance
    lexical_dropout: 0.5,
    feature_size: feature_size,
    max_span_width: max_span_width,
    spans_per_word: 0.4,
    max_antecedents: 100,
    initializer: {
      regexes: [
        ['.*linear_layers.*weight', 'xavier_normal'],
        ['.*scorer._module.weight', 'xavier_normal'],
        ['_distance_embedding.weight', 'xavier_normal'],
        ['_span_width_embedding.weight', 'xavier_normal'],
        ['_context_layer._module.weight_ih.*', 'xavier_normal'],
        ['_context_layer._module.weight_hh.*', 'orthogonal'],
      ],
    },
  },

  data_loader: { batch_sampler: { type: 'bucket', batch_size: 1, padding_noise: 0.0 } },
  trainer: {
    optimizer: 'adam',
    learning_rate_scheduler: { type: 'reduce_on_plateau', factor: 0.5, mode: 'max', patience: 2 },
    grad_norm: 5.0,
    num_epochs: 150,
    patience: 10,
    validation_metric: '+coref_f1',
  },
}
