// ner_elmo.jsonnet for two cores.
local elmo = import '../lib/elmo.libsonnet';

elmo.input(import 'ner.jsonnet', { pretrained: 'small', dropout: 0.0 }, l2=0.1)
