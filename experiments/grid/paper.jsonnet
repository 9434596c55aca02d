// The comparisons of Peters et al. (2018): tables 1 to 3 and figure 1.
//
// `random` is an untrained biLM of the sizes of `small`, whose layers vary from word to word as much
// as those of `small`. `static` is the word layer of `small` alone, which has one vector for a word
// in all contexts. `minilm` is the transformer of 22.7 M parameters of sentence-transformers.
local cells = (import 'cells.libsonnet').cells;
local tasks = {
  [name]: task { config+: { trainer+: { patience: null } } }  // no run has fewer steps than another
  for name in std.objectFields(import 'tasks.libsonnet')
  for task in [(import 'tasks.libsonnet')[name]]
};
local models = ['small', 'medium'];  // installed models
local bilms = { [name]: { pretrained: name } for name in models } + {
  random: { like: 'small', seed: 13370, scaled: true },
  static: { pretrained: 'small' },
  minilm: { transformer: 'all-MiniLM-L6-v2', dim: 384 },
};
local block(settings) = cells(tasks, bilms, { fractions: [1], bilms: ['small'] } + settings);
local three = [1, 2, 3];
local five = [1, 2, 3, 4, 5];
// One task of table 1.
local main(task, seeds, fraction=1, static=true, minilm=false) = std.flatMap(
  function(bilm) block({
    tasks: [task],
    bilms: [bilm],
    seeds: seeds,
    fractions: [fraction],
    [if bilm == 'static' then 'layers']: ['words'],
  }),
  ['none', 'random'] + (if static then ['static'] else []) + models
  + (if minilm then ['minilm'] else [])
);
{
  tasks: { [name]: { [key]: tasks[name][key] for key in ['title', 'data', 'metric', 'seconds'] }
           for name in std.objectFields(tasks) },
  bilms: bilms,
  tables: [
    {
      name: 'table 1',
      columns: models + ['minilm'],
      cells: main('ner', five, minilm=true) + main('sst', five, minilm=true)
             + main('pos', five, minilm=true) + main('snli', five)
             + main('srl', five, fraction=0.15)
             + main('coref', three, static=false)
             + main('squad', three, static=false),
    },
    {
      name: 'table 2',
      cells: block({ tasks: ['pos'], seeds: five, layers: ['top', 'average', 1, 0.001] })
             + block({ tasks: ['ner'], seeds: five, layers: ['top', 'average', 1, 0.1, 0.001] }),
    },
    {
      name: 'table 3',
      cells: block({ tasks: ['pos', 'ner'], seeds: five, places: ['input', 'both', 'output'] }),
    },
    {
      name: 'figure 1',
      // A part is repeated to the length of the whole, so all points of a curve have the same batches,
      // steps and validations.
      cells: block({
        tasks: ['pos', 'ner'],
        bilms: ['none', 'small'],
        seeds: five,
        fractions: [0.01, 0.1, 1],
        repeated: true,
      }),
    },
  ],
}
