// bidaf.jsonnet with ELMo vectors at the input and at the output of the contextual layer, without
// layer norm and without a penalty on the mixes, as in the paper.
//
//   python -m elmo_plugin train training_configs/bidaf_elmo.jsonnet -s OUT
//
// For another biLM than `small`: { archive_file: 'BILM/model.tar.gz' } or any other embedder
// parameters, and dim=..., twice its projection_dim.
local elmo = import 'lib/elmo.libsonnet';

elmo.both(import 'bidaf.jsonnet', { pretrained: 'small', dropout: 0.0 })
