// Makes the cells of a grid. The parameters are
//
//   tasks   by name: { config, place, layers, embedder }, the last three as published
//   bilms   by name: { pretrained }, { archive_file }, { options_file, weight_file }, or
//           { like, seed } of one with initial weights, whose layers are as large as those of the
//           trained model if `scaled: true`. Their sizes are found when the grid is read.
//           { transformer, dim } is a frozen transformer in AllenNLP's embedder, without dropout,
//           at the input, with a learned mix of its layers: a folder in '@data@', and the size of
//           a vector
//   block   lists of settings, of which the cells are all combinations; the seeds vary slowest.
//           `bilms` and `tasks` are names, and 'none' is the task without ELMo. `layers` are 'top',
//           'words' (the word layer alone, without context), 'average' (both with fixed weights) or
//           a number, the lambda of a learned mix; `places` are 'input', 'output' or 'both'.
//           Settings that are not listed are the task's. With `repeated: true`, a fraction of the
//           training data is repeated, so that an epoch has the steps of the whole data.
//
// '@NAME@' is a placeholder for a folder: '@data@', '@work@', or '@BILM@' with a biLM's two files.
local elmo = import '../../training_configs/lib/elmo.libsonnet';
local sizes = std.parseJson(std.extVar('BILM_SIZES'));

// The softmax of the parameters is the layers' weights.
local choice(layers, n_layers) =
  if layers == 'top' then { use_top_only: true }
  else if layers == 'words' then { scalar_mix_parameters: [100] + std.repeat([0], n_layers) }
  else if layers == 'average' then { scalar_mix_parameters: [0] + std.repeat([0], n_layers) }
  else {};

local with_elmo(task, bilm, layers, place) =
  local embedder = task.embedder + choice(layers, sizes[bilm].n_layers) + {
    archive_file: '@' + bilm + '@',
    cache_dir: '@work@/layers/' + bilm,
  };
  local l2 = if std.isNumber(layers) && layers > 0 then layers else null;
  elmo[place](
    task.config, embedder, sizes[bilm].dim, sizes[bilm].max_characters_per_token, l2=l2
  );

local with_transformer(config, name, dim) =
  local transformer = { type: 'pretrained_transformer_mismatched', model_name: '@' + name + '@' };
  local reader = { token_indexers+: { [name]: transformer } };
  elmo.input(config, {}, dim, key=name) + {
    dataset_reader+: reader,
    [if 'validation_dataset_reader' in config then 'validation_dataset_reader']+: reader,
    model+: { text_field_embedder+: { token_embedders+: { [name]: transformer {
      train_parameters: false,
      last_layer_only: false,
      transformer_kwargs: { hidden_dropout_prob: 0, attention_probs_dropout_prob: 0 },
    } } } },
  };

// The validation data are always used completely.
local part(config, fraction, repeated) = if fraction == 1 then config else config {
  dataset_reader: {
    type: 'subset',
    base_reader: config.dataset_reader,
    fraction: fraction,
    [if repeated then 'repeated']: true,
  },
  validation_dataset_reader:
    if 'validation_dataset_reader' in config then config.validation_dataset_reader
    else config.dataset_reader,
};

local cell(tasks, bilms, name, bilm, layers, place, fraction, repeated, seed) =
  local is_transformer = bilm != 'none' && 'transformer' in bilms[bilm];
  local task = tasks[name] + if is_transformer then { place: 'input', layers: 0 } else {};
  local has_elmo = bilm != 'none';
  local own(setting, default) = if !has_elmo then null else if setting == null then default else setting;
  local settings = {
    task: name,
    bilm: bilm,
    layers: own(layers, task.layers),
    place: own(place, task.place),
    fraction: fraction,
    seed: seed,
    [if repeated && fraction != 1 then 'repeated']: true,
  };
  local config =
    if is_transformer then with_transformer(task.config, bilm, bilms[bilm].dim)
    else if has_elmo then with_elmo(task, bilm, settings.layers, settings.place)
    else task.config;
  {
    settings: settings,
    config: part(config, fraction, repeated) + { random_seed: seed, numpy_seed: seed, pytorch_seed: seed },
  };

local names(object) = std.join(', ', std.objectFields(object));
local text(value) = std.manifestJsonMinified(value);

// The first mistake in a block as an error, or null.
local mistake(tasks, bilms, block) =
  local keys = ['tasks', 'bilms', 'fractions', 'seeds', 'layers', 'places', 'repeated'];
  local known = {
    tasks: ['one of ' + names(tasks), function(x) std.isString(x) && x in tasks],
    bilms: ["'none' or one of " + names(bilms), function(x) std.isString(x) && (x == 'none' || x in bilms)],
    fractions: ['a number above 0, at most 1', function(x) std.isNumber(x) && x > 0 && x <= 1],
    seeds: ['a number', std.isNumber],
    layers: ["'top', 'words', 'average' or a number", function(x) std.isNumber(x) || std.member(['top', 'words', 'average'], x)],
    places: ["'input', 'output' or 'both'", function(x) std.member(['input', 'output', 'both'], x)],
  };
  local wrong =
    [key + ': expected one of ' + std.join(', ', keys) for key in std.objectFields(block)
     if !std.member(keys, key)]
    + [key + ': expected a list, found none' for key in keys[:4] if !(key in block)]
    + [key + ': expected a list, found ' + text(block[key]) for key in keys[:6]
       if key in block && !std.isArray(block[key])]
    + [
      key + ': expected ' + known[key][0] + ', found ' + text(value)
      for key in keys[:6] if key in block && std.isArray(block[key])
      for value in block[key] if value != null && !known[key][1](value)
    ]
    + (
      local repeated = std.get(block, 'repeated', false);
      if std.isBoolean(repeated) then []
      else ['repeated: expected true or false, found ' + text(repeated)]
    )
    + [
      'tasks: ' + name + ': expected config, place, layers and embedder, found no ' + key
      for name in std.objectFields(tasks)
      for key in ['config', 'place', 'layers', 'embedder'] if !(key in tasks[name])
    ];
  if wrong == [] then null else error 'cells: ' + wrong[0];

{
  cells(tasks, bilms, block):: if mistake(tasks, bilms, block) == null then [
    cell(tasks, bilms, task, bilm, layers, place, fraction, std.get(block, 'repeated', false), seed)
    for seed in block.seeds
    for fraction in block.fractions
    for task in block.tasks
    for layers in std.get(block, 'layers', [null])
    for place in std.get(block, 'places', [null])
    for bilm in block.bilms
  ],
}
