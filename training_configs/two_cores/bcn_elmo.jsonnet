// bcn_elmo.jsonnet for two cores.
local elmo = import '../lib/elmo.libsonnet';

elmo.both(import 'bcn.jsonnet', { pretrained: 'small', dropout: 0.0 }, dim=128, l2=0.001)
