// What int8 costs NER, with the settings of table 1.
local paper = import 'paper.jsonnet';
local cells = (import 'cells.libsonnet').cells;
local tasks = {
  ner: (import 'tasks.libsonnet').ner { config+: { trainer+: { patience: null } }, embedder+: { precision: 'int8' } },
};
local bilms = { small: { pretrained: 'small' } };
{
  tasks: { ner: { [key]: tasks.ner[key] for key in ['title', 'data', 'metric', 'seconds'] } },
  bilms: bilms,
  tables: [{ name: 'int8', cells: cells(tasks, bilms, { fractions: [1], bilms: ['small'], tasks: ['ner'], seeds: [1, 2, 3, 4, 5] }) }],
}
