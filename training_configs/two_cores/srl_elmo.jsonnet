// srl_elmo.jsonnet for two cores.
local elmo = import '../lib/elmo.libsonnet';

elmo.input(import 'srl.jsonnet', { pretrained: 'small', dropout: 0.1 }, dim=128, l2=0.001)
