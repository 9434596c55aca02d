// bidaf_elmo.jsonnet for two cores.
local elmo = import '../lib/elmo.libsonnet';

elmo.both(import 'bidaf.jsonnet', { pretrained: 'small', dropout: 0.0 }, dim=128)
