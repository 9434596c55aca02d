// srl.jsonnet with ELMo vectors at the input and a weak penalty on the mix, as in the paper.
//
//   python -m elmo_plugin train training_configs/srl_elmo.jsonnet -s OUT
//
// For another biLM than `small`: { archive_file: 'BILM/model.tar.gz' } or any other embedder
// parameters, and dim=..., twice its projection_dim.
local elmo = import 'lib/elmo.libsonnet';

elmo.input(import 'srl.jsonnet', { pretrained: 'small', dropout: 0.1 }, l2=0.001)
