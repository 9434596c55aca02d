// coref_elmo.jsonnet for two cores.
local elmo = import '../lib/elmo.libsonnet';

elmo.input(import 'coref.jsonnet', { pretrained: 'small', dropout: 0.5 }, dim=128)
