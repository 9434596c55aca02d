// Converts the config of a text model to its ELMo version, in one line:
//
//   (import 'lib/elmo.libsonnet').input(import 'ner.jsonnet', { pretrained: 'small' })
//
// `input` concatenates ELMo vectors to the embedded text, and `output` to the output of the task's
// contextual encoder (Peters et al. 2018, section 3.3: this helps SNLI and SQuAD). `both` does
// both, with two mixes and one pass of the biLM. The sizes of the layers that read the vectors
// grow accordingly; `models` below lists them. All three have the parameters
//
//   config    the config of a task
//   embedder  parameters of the token embedder "elmo", without the number of mixes: `pretrained`,
//             `archive_file`, or `options_file` and `weight_file`; and `dropout`, `do_layer_norm`,
//             `use_top_only`, `cache_dir`, ...
//   dim       size of an ELMo vector, twice the biLM's projection_dim, or the embedder's
//             projection_dim; not needed with our `pretrained` models. `dim` below computes it from
//             an options file: dim=elmo.dim(import 'options.json')
//   max_characters_per_token   that of the biLM, if it is not 50
//   key       name of the indexer and the embedder in the config; use another one for a second biLM
//   l2        strength of the L2 penalty on the weights of the mixes, lambda in the paper
//   paths     the sizes to change in your own model, as an entry of `models`
//   dims      sizes of other token embedders by their keys. `output` and `both` need those of
//             embedders that precede `key` in the alphabet, except AllenNLP's `embedding` and
//             `character_encoding`, whose sizes are in the config
{
  dim(options):: 2 * options.lstm.projection_dim,

  // Vector sizes of our models.
  local pretrained_dims = { medium: 512, small: 256, tiny: 64 },

  input(
    config, embedder, dim=null, max_characters_per_token=50, key='elmo', l2=null, paths=null, dims={}
  ):: add(config, embedder, dim, max_characters_per_token, key, l2, paths, dims, 1, 0),

  output(
    config, embedder, dim=null, max_characters_per_token=50, key='elmo', l2=null, paths=null, dims={}
  ):: add(config, embedder, dim, max_characters_per_token, key, l2, paths, dims, 0, 1),

  both(
    config, embedder, dim=null, max_characters_per_token=50, key='elmo', l2=null, paths=null, dims={}
  ):: add(config, embedder, dim, max_characters_per_token, key, l2, paths, dims, 1, 1),

  // The sizes to change in each model, by its type. An entry has the fields
  //
  //   encoder   path of the contextual encoder, which reads the embedded text, or a list of paths
  //   input     other modules that read the embedded text
  //   output    modules that read the encoder's output, or the embedded text without an encoder
  //   embedder  path of the text field embedder, if it is not `text_field_embedder`
  //   indexers  the reader's parameter for token indexers, if it is not `token_indexers`
  //
  // `input` and `output` map a path to the number of times that the ELMo columns are used there. A path
  // names a number, or a module whose input size grows; with `resized`, its output size grows too.
  local models(model) = {
    basic_classifier: {
      encoder: 'seq2seq_encoder',
      output: {
        seq2vec_encoder: 1,
        feedforward: output_growth(get(model, 'seq2vec_encoder', {}), 1),
      },
    },
    bcn: { input: { pre_encode_feedforward: 1 } },  // see also `bcn_with_elmo`
    biaffine_parser: { encoder: 'encoder', output: { arc_feedforward: 1, tag_feedforward: 1 } },
    bidaf: {
      encoder: 'phrase_layer',
      output: { matrix_attention: 1, modeling_layer: 4, span_end_encoder: 4 },
      mixes_columns: true,
    },
    bimpm: {
      encoder: 'encoder1',
      input: { 'matcher_word.hidden_dim': 1 },
      output: {
        encoder2: 1,
        'matcher_forward1.hidden_dim': 0.5,  // reads only the forward direction
        'matcher_backward1.hidden_dim': 0.5,
      },
    },
    composed_seq2seq: seq2seq {
      embedder: 'source_text_embedder',
      output: {
        'decoder.decoder_net.decoding_dim': 1,
        'decoder.decoder_net.attention': 1,
      } + if model.decoder.decoder_net.type != 'stacked_self_attention' then {} else {
        'decoder.decoder_net.target_embedding_dim': 1,  // is the decoding_dim
        'decoder.target_embedder.embedding_dim': 1,
      },
    },
    constituency_parser: {
      encoder: 'encoder',
      output: { span_extractor: 1, feedforward: span_growth(get(model, 'span_extractor', {})) },
    },
    copynet_seq2seq: seq2seq { has_regularizer: false },
    // A span is represented by the encoder's output at its ends and by the attended embedded text.
    // Two spans and their product are compared.
    coref: {
      encoder: 'context_layer',
      input: { mention_feedforward: 1, antecedent_feedforward: 3 },
      output: { mention_feedforward: 2, antecedent_feedforward: 6 },
    },
    crf_tagger: { encoder: 'encoder', output: { feedforward: 1 } },
    decomposable_attention: {
      encoder: ['premise_encoder', 'hypothesis_encoder'],
      output: { attend_feedforward: 1, compare_feedforward: 2 },
      encoder_keeps_size: true,
    },
    dialog_qa: {
      encoder: 'phrase_layer',
      output: {
        residual_encoder: resized(1, 1),
        span_start_encoder: resized(1, 1),
        span_end_encoder: resized(2, 1),
      },
      has_regularizer: false,
    },
    esim: { encoder: 'encoder', output: { matrix_attention: 1, projection_feedforward: 4 } },
    graph_parser: self.biaffine_parser,
    naqanet: self.qanet { output+: { modeling_layer: resized(1, 1) } },
    qanet: {
      encoder: 'phrase_layer',
      output: { matrix_attention_layer: 1 },
      mixes_columns: true,
      projects_embedded_text: true,
    },
    simple_seq2seq: seq2seq { has_regularizer: false },
    simple_tagger: { encoder: 'encoder' },
    srl: { encoder: 'encoder' },
  },
  local seq2seq = {
    encoder: 'encoder',
    output: { attention: 1 },
    embedder: 'source_embedder',
    indexers: 'source_token_indexers',
  },
  local resized(input, output) = { input: input, output: output },

  // Number of vectors of its input size that a span extractor concatenates.
  local span_growth(extractor) =
    local terms(combination) = std.length(std.split(combination, ','));
    if get(extractor, 'type') == 'endpoint' then terms(get(extractor, 'combination', 'x,y'))
    else if get(extractor, 'type') == 'bidirectional_endpoint' then
      (terms(get(extractor, 'forward_combination', 'y-x'))
       + terms(get(extractor, 'backward_combination', 'x-y'))) / 2
    else 1,

  local add(
    config, embedder, given_dim, max_characters_per_token, key, l2, paths, dims, n_input, n_output
  ) =
    local given = [
      ['config', 'the config of a task, with dataset_reader and model',
       if std.isObject(config) then std.objectFields(config) else config, is_task(config)],
      ['embedder', "parameters such as { pretrained: 'small' }", embedder, std.isObject(embedder)],
      ['embedder.pretrained', std.join(', ', std.objectFields(pretrained_dims)) + ', or another with dim',
       get(embedder, 'pretrained'),
       given_dim != null || get(embedder, 'pretrained') == null
       || std.objectHas(pretrained_dims, std.toString(embedder.pretrained))],
      ['max_characters_per_token', 'a whole number above 2', max_characters_per_token,
       is_count(max_characters_per_token) && max_characters_per_token > 2],
      ['key', 'a name', key, std.isString(key) && key != ''],
      ['l2', 'null or a number of at least 0', l2, l2 == null || std.isNumber(l2) && l2 >= 0],
      ['l2', 'null without a learned mix, as with use_top_only or scalar_mix_parameters', l2,
       l2 == null
       || get(embedder, 'use_top_only') != true && get(embedder, 'scalar_mix_parameters') == null],
      ['paths', "null or an object such as { encoder: 'encoder' }", paths,
       paths == null || std.isObject(paths)],
      ['dims', 'an object such as { tokens: 100 }', dims,
       std.isObject(dims) && std.all(std.map(is_count, std.objectValues(dims)))],
    ];
    local wrong = [argument for argument in given if !argument[3]];
    if wrong == [] then add_checked(
      config, embedder, given_dim, max_characters_per_token, key, l2, paths, dims, n_input, n_output
    )
    else fail(wrong[0][0], wrong[0][1], std.manifestJsonMinified(wrong[0][2])),

  local add_checked(
    config, embedder, given_dim, max_characters_per_token, key, l2, paths, dims, n_input, n_output
  ) =
    local known_dim =
      if given_dim != null then given_dim
      else projected(embedder, get(pretrained_dims, std.toString(get(embedder, 'pretrained', ''))));
    local has_weights =
      std.any([name in embedder for name in ['pretrained', 'archive_file', 'options_file']]);
    local dim =
      if is_count(known_dim) then known_dim
      else if known_dim == null && !has_weights then
        fail('embedder', 'pretrained, archive_file, or options_file and weight_file',
             std.manifestJsonMinified(embedder))
      else fail('dim', 'the size of an ELMo vector, twice the projection_dim of the biLM, as in dim=256',
                if known_dim == null then 'none' else std.manifestJsonMinified(known_dim));
    local elmo = { type: 'elmo', num_output_representations: n_input + n_output, elmo_dim: dim }
                 + embedder;
    local base_of(model) =
      local type = get(model, 'type', 'null');
      if std.endsWith(type, '_elmo') then std.substr(type, 0, std.length(type) - 5) else type;
    local entry_of(model) =
      if paths != null then known_fields(paths)
      else if std.objectHas(models(model), base_of(model)) then models(model)[base_of(model)]
      else fail('model.type', 'one of ' + std.join(', ', std.objectFields(models(model))) + ', or '
                              + "paths={ encoder: 'encoder', input: {}, output: { feedforward: 1 } }",
                get(model, 'type', 'null'));
    local indexed(model, reader) =
      local indexers = get(entry_of(model), 'indexers', 'token_indexers');
      with_indexer(reader, indexers, key, max_characters_per_token);
    local changed(model) =
      local base = base_of(model), entry = entry_of(model);
      local is_in_bcn = base == 'bcn' && (n_output == 1 || key == 'elmo');
      local with =
        if is_in_bcn then bcn_with_elmo(model, elmo, dim, key, n_input, n_output)
        else with_elmo(model, base, entry, paths != null, elmo, dim, key, dims, n_input, n_output);
      if l2 == null then with
      else penalized(with, entry, l2, if is_in_bcn then '^_elmo' else 'token_embedder_' + key);
    // `super` has the fields that are overridden after the conversion too, such as `hidden_size::`.
    config {
      dataset_reader: indexed(super.model, super.dataset_reader),
      [if get(config, 'validation_dataset_reader') != null then 'validation_dataset_reader']:
        indexed(super.model, super.validation_dataset_reader),
      model: changed(super.model),
    },

  local with_elmo(model, base, entry, is_strict, elmo, dim, key, dims, n_input, n_output) =
    local embedder_path = get(entry, 'embedder', 'text_field_embedder');
    local embedders = with_names(get(at(model, embedder_path), 'token_embedders', {}), dims);
    local start = columns_before(embedders, key, dims);
    local columns = (n_input + n_output) * dim;
    local encoders = [
      path for path in list(get(entry, 'encoder', [])) if is_strict || has(model, path)
    ];
    local mixes_columns = get(entry, 'mixes_columns', false);
    local encoder_columns = if get(entry, 'projects_embedded_text', false) then 0 else n_input * dim;
    local keeps_size = get(entry, 'encoder_keeps_size', false);
    local growth(encoder) = output_growth(encoder, encoder_columns);
    local encoder_change(encoder) =
      local wide = widened(encoder, encoder_columns, start);
      local sized = if keeps_size then with_output(wide, encoder_columns - growth(encoder)) else wide;
      if n_output == 0 || mixes_columns then sized
      else { type: 'elmo_output', encoder: sized, elmo_dim: dim, start: start + n_input * dim };
    local output_columns =
      if encoders == [] then columns
      else n_output * dim + if keeps_size then encoder_columns else growth(at(model, encoders[0]));
    local changes =
      [[path, encoder_change] for path in encoders]
      + [
        [path, function(module) grown(module, sizes[path], n)]
        for part in [[get(entry, 'input', {}), columns], [get(entry, 'output', {}), output_columns]]
        for sizes in [part[0]]
        for n in [part[1]]
        for path in std.objectFields(sizes)
        if is_strict || has(model, path)
      ]
      + [[embedder_path, function(text_field_embedder) text_field_embedder {
        token_embedders: unused(embedders, key, embedder_path + '.token_embedders') { [key]: elmo },
      }]];
    // The columns for the encoder output, which the layers before it pass through.
    local moved = [
      [edge + (if pair[0] < start then 0 else columns) for edge in pair]
      for pair in get(model, 'elmo_columns', [])
    ];
    if n_output == 1 && encoders == [] then
      fail('model.type', 'a model with a contextual encoder, for ELMo at its output', base + ' without '
                         + std.join(' and ', list(get(entry, 'encoder', 'one'))))
    else std.foldl(function(changed, change) changed_at(changed, change[0], change[1]), changes, model)
         + (if !mixes_columns then {} else {
           [if n_output == 1 then 'type']: base + '_elmo',
           [if n_output == 1 || moved != [] then 'elmo_columns']:
             moved + if n_output == 0 then [] else [[start + n_input * dim, start + columns]],
         })
         + (if base != 'simple_seq2seq' || get(model, 'target_embedding_dim') != null then {} else {
           // By default the size of the embedded text, which targets have without ELMo.
           target_embedding_dim: columns_of(embedders, std.objectFields(embedders), dims),
         })
         + (if n_output == 0 then {} else {
              [if get(model, 'initializer') != null then 'initializer']:
                with_wrapped(super.initializer, encoders),
              [if get(model, 'regularizer') != null then 'regularizer']:
                with_wrapped(super.regularizer, encoders),
            }),

  // An initializer or regularizer that also matches the parameters of wrapped encoders.
  local with_wrapped(applicator, encoders) = applicator {
    [if get(applicator, 'regexes') != null then 'regexes']:
      [[wrapped(regex[0], encoders)] + regex[1:] for regex in super.regexes],
    [if get(applicator, 'prevent_regexes') != null then 'prevent_regexes']:
      [wrapped(regex, encoders) for regex in super.prevent_regexes],
  },

  // A regular expression, or it and the same with the names that `elmo_output` gives the parameters.
  local wrapped(regex, encoders) =
    local renamed = std.foldl(
      function(regex, encoder) std.foldl(
        function(regex, dot)
          std.strReplace(regex, encoder + dot + '_module', encoder + dot + '_encoder' + dot + '_module'),
        ['.', '\\.'],
        regex,
      ),
      encoders,
      regex,
    );
    if renamed == regex then regex else '(' + regex + ')|(' + renamed + ')',

  // `bcn` has an ELMo parameter and reads the indexer "elmo".
  local bcn_with_elmo(model, elmo, dim, key, n_input, n_output) =
    if key != 'elmo' then fail('key', '"elmo" for the output of bcn', key)
    else if get(model, 'elmo') != null then fail('model.elmo', 'a bcn without ELMo', 'one with it')
    else model {
      type: 'bcn_elmo',
      elmo: elmo,
      use_input_elmo: n_input == 1,
      use_integrator_output_elmo: n_output == 1,
      pre_encode_feedforward: widened(model.pre_encode_feedforward, n_input * dim),
      // It reads four kinds of pooling.
      output_layer: widened(model.output_layer, 4 * n_output * dim),
    },

  local known_fields(paths) =
    local is_path(value) = std.isString(value);
    local is_paths(value) = std.all(std.map(is_path, list(value)));
    local is_times(value) = std.isNumber(value)
                            || std.isNumber(get(value, 'input')) && std.isNumber(get(value, 'output'));
    local is_sizes(value) =
      std.isObject(value) && std.all(std.map(is_times, std.objectValues(value)));
    local fields = {
      encoder: [is_paths, 'a path in the model, or a list of paths'],
      input: [is_sizes, 'paths with numbers, such as { feedforward: 1 }'],
      output: [is_sizes, 'paths with numbers, such as { feedforward: 1 }'],
      embedder: [is_path, 'a path in the model'],
      indexers: [is_path, 'the name of a parameter of the reader'],
    };
    local unknown = [field for field in std.objectFields(paths) if !(field in fields)];
    local wrong = [field for field in std.objectFields(paths) if !fields[field][0](paths[field])];
    if unknown != [] then
      fail('paths', 'the fields ' + std.join(', ', std.objectFields(fields)), std.join(', ', unknown))
    else if wrong != [] then
      fail('paths.' + wrong[0], fields[wrong[0]][1], std.manifestJsonMinified(paths[wrong[0]]))
    else paths,

  local penalized(model, entry, l2, name) =
    local regularizer = get(model, 'regularizer', {});
    if !get(entry, 'has_regularizer', true) then
      fail('l2', 'a model that takes a regularizer; or give the optimizer parameter_groups: '
                 + "[[['scalar_parameters'], { weight_decay: 2 * l2 }]]", model.type)
    else model {
      // AllenNLP applies the first match.
      regularizer: regularizer {
        regexes: [[name + '\\..*scalar_parameters', { type: 'l2', alpha: l2 }]]
                 + get(regularizer, 'regexes', []),
      },
    },

  local with_indexer(reader, parameter, key, max_characters_per_token) =
    local again(inner) = with_indexer(inner, parameter, key, max_characters_per_token);
    if std.isString(reader) then again({ type: reader })  // AllenNLP's short form
    else if 'readers' in reader then
      reader { readers: std.mapWithKey(function(name, inner) again(inner), reader.readers) }
    else if 'base_reader' in reader then reader { base_reader: again(reader.base_reader) }
    else
      local indexer = { type: 'elmo', max_characters_per_token: max_characters_per_token };
      // Defaults of AllenNLP's readers. Targets have the same as sources.
      local given = get(reader, parameter);
      local indexers = if given == null then { tokens: 'single_id' } else given;
      local targets = 'target_token_indexers';
      local has_targets = std.member(['seq2seq', 'cnn_dm'], get(reader, 'type'));
      reader {
        // The same indexer may be there: from `$.dataset_reader`, or for another embedder.
        [parameter]: if get(indexers, key) == indexer then indexers
        else unused(indexers, key, 'dataset_reader.' + parameter) { [key]: indexer },
        [if has_targets then targets]: get(reader, targets, indexers),
      },

  // The column at which ELMo starts. AllenNLP sorts the embedders by their keys.
  local columns_before(embedders, key, dims) =
    columns_of(embedders, [name for name in std.objectFields(embedders) if name < key], dims),
  local columns_of(embedders, names, dims) = std.foldl(
    function(sum, name) sum + (if name in dims then given_size(name, embedders[name], dims[name])
                               else embedder_size(name, embedders[name])),
    names,
    0,
  ),
  // The size in `dims`, which must be that in the config, if AllenNLP's `embedding` has one.
  local given_size(name, embedder, dim) =
    local has_size = get(embedder, 'type') == 'embedding' && 'embedding_dim' in embedder;
    if has_size && embedder_size(name, embedder) != dim then
      fail('dims.' + name, embedder_size(name, embedder) + ', the size in the config', dim)
    else dim,
  local embedder_size(name, embedder) =
    local type = get(embedder, 'type', 'embedding');
    local size =
      if 'elmo_dim' in embedder then get(embedder, 'num_output_representations', 1) * embedder.elmo_dim
      else if type == 'embedding' && 'embedding_dim' in embedder then
        projected(embedder, embedder.embedding_dim)
      else if type == 'character_encoding' then vector_size(get(embedder, 'encoder'));
    if size != null then size
    else fail('the token embedder "' + name + '"', 'its embedding_dim, or its size by dims={ ' + name
                                                   + ': ... }', 'neither'),

  // The size of the vector that an encoder makes of a sequence.
  local vector_size(encoder) =
    local type = get(encoder, 'type');
    if type == 'cnn' then
      local output_dim = get(encoder, 'output_dim');
      if output_dim != null then output_dim
      else encoder.num_filters * std.length(get(encoder, 'ngram_filter_sizes', [2, 3, 4, 5]))
    else if type == 'cnn-highway' then encoder.projection_dim
    else if get(encoder, 'hidden_size') != null then directions(encoder) * encoder.hidden_size
    else if std.member(['boe', 'cls_pooler'], type) then get(encoder, 'embedding_dim'),

  local directions(encoder) =
    local is_bidirectional = get(encoder, 'type') == 'stacked_bidirectional_lstm';
    if get(encoder, 'bidirectional', is_bidirectional) == true then 2 else 1,

  local with_names(embedders, dims) =
    local unknown = [name for name in std.objectFields(dims) if !(name in embedders)];
    if unknown == [] then embedders
    else fail('dims', 'names of token embedders, ' + std.join(', ', std.objectFields(embedders)),
              std.join(', ', unknown)),

  // null and 0 mean no projection.
  local projected(embedder, dim) =
    local projection_dim = get(embedder, 'projection_dim');
    if projection_dim == null || projection_dim == 0 then dim else projection_dim,

  // A module that reads n more columns, starting at `start`.
  local widened(module, n, start=0) =
    local type = get(module, 'type');
    local sizes = [size for size in sizes_of_inputs if size in module];
    if n == 0 || !std.isObject(module) || std.member(without_sizes, type) then module
    else if type == 'elmo_output' then module {
      // The encoder does not see the columns of this wrapper.
      encoder: widened(module.encoder, n, if start > module.start then start - module.elmo_dim else start),
      start+: if start <= module.start then n else 0,
    }
    else if type == 'compose' then module {
      encoders: std.mapWithIndex(
        function(k, encoder) widened(encoder, outputs_growth(module.encoders[:k], n)), module.encoders
      ),
    }
    else if type == 'feedforward' then module { feedforward: widened(module.feedforward, n) }
    else if type == 'gated-cnn-encoder' || sizes == [] then
      fail('an encoder of type "' + type + '"', 'the size of an input that can grow, one of '
                                                + std.join(', ', sizes_of_inputs), 'none')
    else module { [size]+: n for size in sizes },

  local sizes_of_inputs = [
    'input_size',
    'input_dim',
    'embedding_dim',
    'tensor_1_dim',
    'tensor_2_dim',
    'matrix_1_dim',
    'matrix_2_dim',
    'vector_dim',
    'matrix_dim',
  ],
  local without_sizes = ['dot_product', 'scaled_dot_product', 'cosine'],

  // Growth of a module's output if its input grows by n columns.
  local output_growth(module, n) =
    local type = get(module, 'type');
    if type == 'compose' then outputs_growth(module.encoders, n)
    else if type == 'elmo_output' then output_growth(module.encoder, n)
    else if std.member(['pass_through', 'pytorch_transformer', 'bag_of_embeddings', 'boe', 'cls_pooler'], type)
            || type == 'multi_head_self_attention' && get(module, 'output_projection_dim') == null then n
    else 0,
  local outputs_growth(modules, n) = std.foldl(function(n, module) output_growth(module, n), modules, n),

  // A module with n more columns in its output.
  local with_output(module, n) =
    if n == 0 then module
    else if get(module, 'type') == 'elmo_output' then module { encoder: with_output(module.encoder, n) }
    else if 'hidden_size' in module then module { hidden_size+: n / directions(module) }
    else if 'hidden_dim' in module then module { hidden_dim+: n }
    else fail('an encoder of type "' + get(module, 'type') + '"',
              'the size of its output, hidden_size or hidden_dim', 'neither'),

  // A number or a module that uses n columns several times.
  local grown(module, times, n) =
    if std.isNumber(module) then module + times * n
    else if std.isNumber(times) then widened(module, times * n)
    else with_output(
      widened(module, times.input * n), times.output * n - output_growth(module, times.input * n)
    ),

  local unused(object, key, path) =
    local there = get(object, key);
    local type = get(there, 'type', there);
    if !(key in object) then object
    else if std.member(['elmo_characters', 'elmo_token_embedder'], type) then
      fail(path + '.' + key, "a config without AllenNLP's ELMo. Its sizes already fit ELMo's vectors, so "
                             + "change the types elmo_characters and elmo_token_embedder to 'elmo' instead "
                             + 'of converting it', type)
    else fail('key', 'a name that is not in ' + path + ' yet', key),

  local is_count(value) = std.isNumber(value) && value > 0 && value == std.floor(value),
  local is_task(config) =
    local reader = get(config, 'dataset_reader');
    (std.isObject(reader) || std.isString(reader)) && std.isString(get(get(config, 'model'), 'type', '')),
  local get(object, field, default=null) =
    if std.isObject(object) && field in object then object[field] else default,
  local list(value) = if std.isArray(value) then value else [value],
  local at(object, path) = std.foldl(function(found, field) get(found, field), std.split(path, '.'), object),
  local has(object, path) = at(object, path) != null,
  local changed_at(object, path, change, whole=path) =
    local fields = std.splitLimit(path, '.', 1);
    if get(object, fields[0]) == null then fail('paths', 'a path in the model', whole)
    else object {
      [fields[0]]: if std.length(fields) == 1 then change(object[fields[0]])
      else changed_at(object[fields[0]], fields[1], change, whole),
    },
  local fail(name, expected, found) =
    error 'elmo.libsonnet: ' + name + ': expected ' + expected + '; found ' + found,
}
