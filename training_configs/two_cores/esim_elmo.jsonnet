// esim_elmo.jsonnet for two cores.
local elmo = import '../lib/elmo.libsonnet';

elmo.both(
  import 'esim.jsonnet',
  { pretrained: 'small', do_layer_norm: true, dropout: 0.0 },
  dim=128,
  l2=0.001,
)
