// NER on CoNLL 2003 with allennlp-models' `crf_tagger`, without ELMo, which
// ner_elmo.jsonnet adds.
//
//   python -m elmo_plugin train training_configs/ner.jsonnet -s OUT
//
// The data are small fixtures. For real results, name CoNLL's files, and GloVe's if you have them:
//
//   (import 'training_configs/ner.jsonnet') + {
//     train_data_path: 'eng.train',
//     validation_data_path: 'eng.testa',
//     glove:: 'glove.6B.50d.txt.gz',
//   }
//
// The values are from the published AllenNLP config; the repository's docs/paper_tasks.md compares
// them with the paper's. two_cores/ner.jsonnet is smaller.
{
  embedding_dim:: 50,
  character_filters:: 128,
  hidden_size:: 200,  // of each direction
  glove:: null,

  dataset_reader: {
    type: 'conll2003',
    tag_label: 'ner',
    coding_scheme: 'BIOUL',
    token_indexers: {
      tokens: { type: 'single_id', lowercase_tokens: true },
      token_characters: { type: 'characters', min_padding_length: 3 },  // the width of the filters
    },
  },
  train_data_path: 'fixtures/ner/train.conll',
  validation_data_path: 'fixtures/ner/dev.conll',

  model: {
    type: 'crf_tagger',
    label_encoding: 'BIOUL',
    constrain_crf_decoding: true,
    calculate_span_f1: true,
    include_start_end_transitions: false,
    text_field_embedder: {
      token_embedders: {
        tokens: {
          type: 'embedding', embedding_dim: $.embedding_dim, pretrained_file: $.glove,
        },
        token_characters: {
          type: 'character_encoding',
          embedding: { vocab_namespace: 'token_characters', embedding_dim: 16 },
          encoder: {
            type: 'cnn',
            embedding_dim: 16,
            num_filters: $.character_filters,
            ngram_filter_sizes: [3],
            conv_layer_activation: 'relu',
          },
        },
      },
    },
    encoder: {
      type: 'lstm',
      input_size: $.embedding_dim + $.character_filters,
      hidden_size: $.hidden_size,
      num_layers: 2,
      dropout: 0.5,
      bidirectional: true,
    },
    dropout: 0.5,
  },

  data_loader: { batch_size: 64, shuffle: true },
  trainer: {
    optimizer: { type: 'adam', lr: 0.001 },
    grad_norm: 5.0,
    num_epochs: 75,
    patience: 25,
    validation_metric: '+f1-measure-overall',
  },
}
