// A config for each text model of allennlp-models, with tiny sizes and the fixtures of its format.
// Words have 5 columns. The encoders of bidirectional LSTMs have an output of 2 x 3.
local lstm(input_size, bidirectional=true) = {
  type: 'lstm', input_size: input_size, hidden_size: 3, bidirectional: bidirectional,
};
local feedforward(input_dim, hidden_dims=4) = {
  input_dim: input_dim, num_layers: 1, hidden_dims: hidden_dims, activations: 'relu',
};
local qanet_encoder(input_dim, hidden_dim) = {
  type: 'qanet_encoder',
  input_dim: input_dim,
  hidden_dim: hidden_dim,
  attention_projection_dim: 4,
  feedforward_hidden_dim: 4,
  num_blocks: 1,
  num_convs_per_block: 1,
  conv_kernel_size: 3,
  num_attention_heads: 2,
};
local linear_attention(dim) = {
  type: 'linear', tensor_1_dim: dim, tensor_2_dim: dim, combination: 'x,y,x*y',
};
local words = { type: 'embedding', embedding_dim: 5 };
local text = { token_embedders: { tokens: words } };
local characters = {
  token_indexers: {
    tokens: 'single_id', token_characters: { type: 'characters', min_padding_length: 2 },
  },
};

local config(reader, data, model) = {
  local file = std.extVar('FIXTURES') + '/' + data,
  dataset_reader: if std.isString(reader) then { type: reader } else reader,
  train_data_path: file,
  validation_data_path: file,
  model: model,
  data_loader: { batch_size: 3 },
  trainer: { optimizer: { type: 'adam', lr: 0.01 }, num_epochs: 1, enable_default_callbacks: false },
};
local text_config(reader, data, type, model) =
  config(reader, data, { type: type, text_field_embedder: text } + model);

local classification = { type: 'text_classification_json', tokenizer: 'just_spaces' };
local entailment = { type: 'snli', tokenizer: 'just_spaces' };
local seq2seq = { type: 'seq2seq', source_tokenizer: 'just_spaces' } + {
  source_add_start_token: false, source_add_end_token: false,
};
local parser = {
  encoder: lstm(5 + 2),
  tag_representation_dim: 4,
  arc_representation_dim: 4,
  arc_feedforward: feedforward(6),
  pos_tag_embedding: { embedding_dim: 2, vocab_namespace: 'pos' },
};

{
  basic_classifier: text_config(classification, 'classification/train.jsonl', 'basic_classifier', {
    seq2seq_encoder: lstm(5),
    seq2vec_encoder: { type: 'bag_of_embeddings', embedding_dim: 6 },
    feedforward: feedforward(6),
  }),
  basic_classifier_without_encoder: text_config(
    classification, 'classification/train.jsonl', 'basic_classifier',
    { seq2vec_encoder: { type: 'cnn', embedding_dim: 5, num_filters: 2, ngram_filter_sizes: [2] } }
  ),
  bcn: text_config(classification, 'classification/train.jsonl', 'bcn', {
    embedding_dropout: 0.1,
    pre_encode_feedforward: feedforward(5),
    encoder: lstm(4),
    integrator: lstm(3 * 6),
    integrator_dropout: 0.1,
    output_layer: {
      input_dim: 4 * 6, num_layers: 2, output_dims: [4, 2], pool_sizes: 2, dropout: 0.1,
    },
  }),
  biaffine_parser: text_config(
    'universal_dependencies', 'dependencies/train.conllu', 'biaffine_parser',
    parser { tag_feedforward: feedforward(6) },
  ),
  bidaf: text_config('squad', 'squad/dev.json', 'bidaf', {
    num_highway_layers: 1,
    phrase_layer: lstm(5),
    matrix_attention: linear_attention(6),
    modeling_layer: lstm(4 * 6),
    span_end_encoder: lstm(4 * 6 + 3 * 6),
  }),
  bimpm: text_config(entailment, 'snli/dev.jsonl', 'bimpm', {
    local matcher(hidden_dim, is_forward) = {
      hidden_dim: hidden_dim, num_perspectives: 2, is_forward: is_forward,
    },
    matcher_word: matcher(5, true) { with_full_match: false },
    encoder1: lstm(5),
    matcher_forward1: matcher(3, true),
    matcher_backward1: matcher(3, false),
    encoder2: lstm(6),
    matcher_forward2: matcher(3, true),
    matcher_backward2: matcher(3, false),
    // 2 + 4 + 3 + 3 without the full match, and 3 more with it
    aggregator: lstm(12 + 4 * 15),
    classifier_feedforward: feedforward(2 * 6, 3),
  }),
  composed_seq2seq: config(seq2seq { target_token_indexers: { tokens: 'single_id' } }, 'seq2seq/train.tsv', {
    type: 'composed_seq2seq',
    source_text_embedder: text,
    encoder: lstm(5),
    decoder: {
      type: 'auto_regressive_seq_decoder',
      decoder_net: {
        type: 'lstm_cell',
        decoding_dim: 6,
        target_embedding_dim: 4,
        attention: { type: 'linear', tensor_1_dim: 6, tensor_2_dim: 6 },
        bidirectional_input: true,
      },
      target_embedder: { embedding_dim: 4, vocab_namespace: 'tokens' },
      beam_search: { beam_size: 1, max_steps: 4 },
    },
  }),
  composed_transformer: $.composed_seq2seq {
    model+: {
      encoder: { type: 'feedforward', feedforward: feedforward(5, 6) },
      decoder+: {
        decoder_net: {
          type: 'stacked_self_attention',
          decoding_dim: 6,
          target_embedding_dim: 6,
          feedforward_hidden_dim: 4,
          num_layers: 1,
          num_attention_heads: 2,
        },
        target_embedder+: { embedding_dim: 6 },
      },
    },
  },
  constituency_parser: text_config('ptb_trees', 'trees/train.mrg', 'constituency_parser', {
    span_extractor: { type: 'bidirectional_endpoint', input_dim: 6 },
    encoder: lstm(5 + 2),
    feedforward: feedforward(6),
    pos_tag_embedding: { embedding_dim: 2, vocab_namespace: 'pos' },
    evalb_directory_path: null,
  }),
  copynet_seq2seq: config(
    { type: 'copynet_seq2seq', target_namespace: 'target_tokens', source_tokenizer: 'just_spaces' },
    'seq2seq/train.tsv', {
      type: 'copynet_seq2seq',
      source_embedder: text,
      encoder: lstm(5),
      attention: { type: 'bilinear', vector_dim: 6, matrix_dim: 6 },
      target_embedding_dim: 4,
      beam_search: { beam_size: 1, max_steps: 4 },
    }
  ),
  coref: text_config({ type: 'coref', max_span_width: 2 }, 'coref/dev.gold_conll', 'coref', {
    context_layer: lstm(5),
    mention_feedforward: feedforward(2 * 6 + 2 + 5),
    antecedent_feedforward: feedforward(3 * (2 * 6 + 2 + 5) + 2),
    feature_size: 2,
    max_span_width: 2,
    spans_per_word: 0.4,
    max_antecedents: 4,
  }),
  crf_tagger: text_config({ type: 'conll2003', tag_label: 'ner' }, 'ner/dev.conll', 'crf_tagger', {
    encoder: lstm(5), feedforward: feedforward(6),
  }),
  decomposable_attention: text_config(entailment, 'snli/dev.jsonl', 'decomposable_attention', {
    attend_feedforward: feedforward(5),
    matrix_attention: 'dot_product',
    compare_feedforward: feedforward(2 * 5),
    aggregate_feedforward: feedforward(2 * 4, 3),
  }),
  decomposable_attention_with_encoder: $.decomposable_attention {
    model+: {
      premise_encoder: lstm(6),
      text_field_embedder: { token_embedders: { tokens: words { embedding_dim: 6 } } },
      attend_feedforward: feedforward(6),
      compare_feedforward: feedforward(2 * 6),
    },
  },
  dialog_qa: text_config(
    { type: 'quac', num_context_answers: 2 } + characters, 'quac/train.json', 'dialog_qa', {
      local markers = 2 * 3,
      text_field_embedder: { token_embedders: { tokens: words, token_characters: {
        type: 'character_encoding',
        embedding: { embedding_dim: 2, vocab_namespace: 'token_characters' },
        encoder: { type: 'cnn', embedding_dim: 2, num_filters: 2, ngram_filter_sizes: [2] },
      } } },
      phrase_layer: lstm(5 + 2 + markers),
      residual_encoder: lstm(6),
      span_start_encoder: lstm(6),
      span_end_encoder: lstm(2 * 6),
      num_context_answers: 2,
      marker_embedding_dim: 3,
    }
  ),
  esim: text_config(entailment, 'snli/dev.jsonl', 'esim', {
    encoder: lstm(5),
    matrix_attention: 'dot_product',
    projection_feedforward: feedforward(4 * 6),
    inference_encoder: lstm(4),
    output_feedforward: feedforward(4 * 6),
    output_logit: feedforward(4, 3),
  }),
  graph_parser: text_config(
    'semantic_dependencies', 'semantic_dependencies/train.sdp', 'graph_parser', parser
  ),
  naqanet: text_config('drop', 'drop/train.json', 'naqanet', {
    num_highway_layers: 1,
    phrase_layer: qanet_encoder(4, 4),
    matrix_attention_layer: linear_attention(4),
    modeling_layer: qanet_encoder(4, 4),
  }),
  qanet: text_config('squad', 'squad/dev.json', 'qanet', {
    num_highway_layers: 1,
    phrase_layer: qanet_encoder(4, 4),
    matrix_attention_layer: linear_attention(4),
    modeling_layer: qanet_encoder(4, 4),
  }),
  simple_seq2seq: config(seq2seq, 'seq2seq/train.tsv', {
    type: 'simple_seq2seq',
    source_embedder: text,
    encoder: lstm(5),
    attention: { type: 'linear', tensor_1_dim: 6, tensor_2_dim: 6 },
    beam_search: { beam_size: 1, max_steps: 4 },
  }),
  simple_tagger: text_config('sequence_tagging', 'tagging/dev.tsv', 'simple_tagger', {
    encoder: lstm(5),
  }),
  srl: text_config('srl', 'srl/dev', 'srl', {
    encoder: { type: 'alternating_lstm', input_size: 5 + 3, hidden_size: 4, num_layers: 2 },
    binary_feature_dim: 3,
  }),
}
