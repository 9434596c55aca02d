// The comparisons of Peters et al. (2018) with `small`, in about ten core-hours, which are divided
// among the tables here. `random` is an untrained biLM of the same sizes: its gain is not due to
// training on text.
local cells = (import 'cells.libsonnet').cells;
local tasks = import 'tasks.libsonnet';
local bilms = {
  small: { pretrained: 'small' },
  random: { like: 'small', seed: 13370 },
};
local block(settings) = cells(tasks, bilms, { fractions: [1], bilms: ['small'] } + settings);
local two = [1, 2];
local five = [1, 2, 3, 4, 5];
local sources = ['none', 'random', 'small'];
// A model needs some hundred steps to predict more than the most frequent class, so fewer examples are
// read in smaller batches and for more epochs.
local on_part(fraction) = if fraction == 1 then tasks else {
  [name]: tasks[name] {
    config+: {
      data_loader+: { batch_size: std.max(4, std.floor(super.batch_size * fraction)) },
      trainer+: {
        num_epochs: 2 * super.num_epochs,
        patience: if super.patience == null then null else 3 * super.patience,
      },
    },
  }
  for name in ['pos', 'ner']
};
// Fractions of the training data of tasks on which a full epoch takes too long.
local part = { pos: 0.25, srl: 0.15, squad: 0.2 };
{
  tasks: { [name]: { [key]: tasks[name][key] for key in ['title', 'data', 'metric', 'seconds'] }
           for name in std.objectFields(tasks) },
  bilms: bilms,
  tables: [
    {
      name: 'table 1',
      cells: std.flatMap(
        function(seed)
          block({ tasks: ['ner', 'sst'], bilms: sources, seeds: [seed] })
          + block({ tasks: ['pos'], bilms: sources, seeds: [seed], fractions: [part.pos] }),
        five
      ) + std.flatMap(
        function(seed)
          block({ tasks: ['snli', 'coref'], bilms: sources, seeds: [seed] })
          + block({ tasks: ['srl'], bilms: sources, seeds: [seed], fractions: [part.srl] })
          + block({ tasks: ['squad'], bilms: sources, seeds: [seed], fractions: [part.squad] }),
        two
      ),
    },
    {
      name: 'table 2',
      cells: block({ tasks: ['sst', 'snli'], seeds: two, layers: ['top', 'average', 1, 0.001] }),
    },
    {
      name: 'table 3',
      cells: block({ tasks: ['sst', 'snli'], seeds: two, places: ['input', 'both', 'output'] }),
    },
    {
      name: 'figure 1',
      cells: std.flatMap(
        function(seed) std.flatMap(
          function(fraction) cells(on_part(fraction), bilms, {
            tasks: ['pos', 'ner'], bilms: ['none', 'small'], seeds: [seed], fractions: [fraction],
          }),
          [0.01, 0.03, 0.1, 0.3, 1]
        ),
        two
      ),
    },
  ],
}
