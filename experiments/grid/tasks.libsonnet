// The tasks of the grid, on data that anybody can get: two_cores/*.jsonnet with fewer epochs, and
// for the larger data with a part of them. Place, lambda, layer norm and dropout of ELMo are those of
// two_cores/*_elmo.jsonnet. `metric` is the one that the paper reports. `seconds` is the expected
// cost of a run of all data, in seconds of CPU.
local configs = {
  ner: import '../../training_configs/two_cores/ner.jsonnet',
  sst: import '../../training_configs/two_cores/bcn.jsonnet',
  snli: import '../../training_configs/two_cores/esim.jsonnet',
  srl: import '../../training_configs/two_cores/srl.jsonnet',
  coref: import '../../training_configs/two_cores/coref.jsonnet',
  squad: import '../../training_configs/two_cores/bidaf.jsonnet',
  pos: import '../../training_configs/tagger.jsonnet',
};
local data(train, dev) = {
  train_data_path: '@data@/' + train,
  validation_data_path: '@data@/' + dev,
};
local epochs(num_epochs, patience) = {
  trainer+: { num_epochs: num_epochs, patience: patience },
};
{
  ner: {
    title: 'NER',
    data: 'WNUT-17',
    metric: 'f1-measure-overall',
    seconds: 250,
    config: configs.ner + data('ner/conll-4col/wnut17.train.txt', 'ner/conll-4col/wnut17.dev.txt')
            // Its F1 is zero until the model gives a first entity, which no patience should end.
            + epochs(15, null),
    place: 'input',
    layers: 0.1,
    embedder: { dropout: 0.0 },
  },
  sst: {
    title: 'SST-5',
    data: 'whole sentences',
    metric: 'accuracy',
    seconds: 250,
    config: configs.sst + data('sst/train.txt', 'sst/dev.txt') + epochs(8, 3),
    place: 'both',
    layers: 0.001,
    embedder: { dropout: 0.0 },
  },
  pos: {
    title: 'POS tagging',
    data: 'UD English-EWT',
    metric: 'accuracy',
    seconds: 400,
    config: configs.pos + data('pos/ud_ewt/en_ewt-ud-train.conllu', 'pos/ud_ewt/en_ewt-ud-dev.conllu')
            + {
              dataset_reader: { type: 'upos' },
              data_loader+: { batch_size: 32 },
              trainer+: { num_epochs: 8, patience: 2 },
            },
    place: 'input',
    layers: 0.001,
    embedder: { dropout: 0.2 },
  },
  snli: {
    title: 'SNLI',
    data: 'its development set, split',
    metric: 'accuracy',
    seconds: 400,
    config: configs.snli + data('snli/snli_dev_as_train.jsonl', 'snli/snli_dev_as_dev.jsonl')
            + epochs(8, 2),
    place: 'both',
    layers: 0.001,
    embedder: { do_layer_norm: true, dropout: 0.0 },
  },
  srl: {
    title: 'SRL',
    data: 'English Web Treebank',
    metric: 'f1-measure-overall',
    seconds: 3000,
    // Adadelta needs many more epochs.
    config: configs.srl + data('srl/ewt-propbank/train', 'srl/ewt-propbank/dev') + epochs(15, 3)
            + { trainer+: { optimizer: { type: 'adam', lr: 0.002 } } },
    place: 'input',
    layers: 0.001,
    embedder: { dropout: 0.1 },
  },
  coref: {
    title: 'coreference',
    data: 'LitBank',
    metric: 'coref_f1',
    seconds: 800,
    config: configs.coref
            + data('coref/litbank/litbank.train.gold_conll', 'coref/litbank/litbank.dev.gold_conll')
            + epochs(12, 4)
            + {
              dataset_reader+: { remove_singleton_clusters: true },
              validation_dataset_reader+: {
                remove_singleton_clusters: true,
                // `small` has read this novel (COST-ELTeC/ELTeC-eng), so it is no held-out text.
                type: 'coref_without',
                without: ['2891_howards_end'],
              },
            },
    place: 'input',
    layers: 0,
    embedder: { dropout: 0.5 },
  },
  squad: {
    title: 'SQuAD',
    data: '1.1, its development set, split',
    metric: 'f1',
    seconds: 5000,
    config: configs.squad + data('squad/squad1.1dev-train.json', 'squad/squad1.1dev-dev.json')
            + epochs(8, 3)
            + { data_loader+: { batch_sampler+: { batch_size: 10 } } },  // few questions, more steps
    place: 'both',
    layers: 0,
    embedder: { dropout: 0.0 },
  },
}
