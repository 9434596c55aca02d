// Makes the cells of a grid. The parameters are
//
//   tasks   by name: { config, place, layers, embedder }, the last three as published
//   bilms   by name: { dim }, the size of a vector
//   block   lists of settings, of which the cells are all combinations; the seeds vary slowest.
//           `bilms` and `tasks` are names, and 'none' is the task without ELMo. `layers` are 'top',
//           'average' (fixed weights) or a number, the lambda of a learned mix; `places` are
// 'input', 'output' or 'both'. Settings that are not listed are the task's.
//
// '@NAME@' is a placeholder for a folder: '@data@', '@work@', or '@BILM@' with a biLM's two files.
local elmo = import '../../training_configs/lib/elmo.libsonnet';

local choice(layers) =
  if layers == 'top' then { use_top_only: true }
  else if layers == 'average' then { scalar_mix_parameters: [0, 0, 0] }
  else {};

local with_elmo(task, bilm, dim, layers, place) =
  local embedder = task.embedder + choice(layers) + {
    archive_file: '@' + bilm + '@',
    cache_dir: '@work@/layers/' + bilm,
  };
  local l2 = if std.isNumber(layers) && layers > 0 then layers else null;
  elmo[place](task.config, embedder, dim=dim, l2=l2);

// The validation data are always used completely.
local part(config, fraction) = if fraction == 1 then config else config {
  dataset_reader: { type: 'subset', base_reader: config.dataset_reader, fraction: fraction },
  validation_dataset_reader:
    if 'validation_dataset_reader' in config then config.validation_dataset_reader
    else config.dataset_reader,
};

local cell(tasks, bilms, name, bilm, layers, place, fraction, seed) =
  local task = tasks[name];
  local has_elmo = bilm != 'none';
  local own(setting, default) = if !has_elmo then null else if setting == null then default else setting;
  local settings = {
    task: name,
    bilm: bilm,
    layers: own(layers, task.layers),
    place: own(place, task.place),
    fraction: fraction,
    seed: seed,
  };
  local config =
    if has_elmo then with_elmo(task, bilm, bilms[bilm].dim, settings.layers, settings.place)
    else task.config;
  {
    settings: settings,
    config: part(config, fraction) + { random_seed: seed, numpy_seed: seed, pytorch_seed: seed },
  };

{
  cells(tasks, bilms, block):: [
    cell(tasks, bilms, task, bilm, layers, place, fraction, seed)
    for seed in block.seeds
    for fraction in block.fractions
    for task in block.tasks
    for layers in std.get(block, 'layers', [null])
    for place in std.get(block, 'places', [null])
    for bilm in block.bilms
  ],
}
