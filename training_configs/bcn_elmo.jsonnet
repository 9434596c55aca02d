// bcn.jsonnet with ELMo vectors at the encoder's input and at the integrator's output, and a weak
// penalty on the mixes, as in the paper.
//
//   python -m elmo_plugin train training_configs/bcn_elmo.jsonnet -s OUT
//
// For another biLM than `small`: { archive_file: 'BILM/model.tar.gz' } or any other embedder
// parameters, and dim=..., twice its projection_dim.
local elmo = import 'lib/elmo.libsonnet';

elmo.both(import 'bcn.jsonnet', { pretrained: 'small', dropout: 0.0 }, l2=0.001)
