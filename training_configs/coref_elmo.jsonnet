// coref.jsonnet with ELMo vectors at the input and dropout of one half on them, without layer norm
// and without a penalty on the mix, as in the paper.
//
//   python -m elmo_plugin train training_configs/coref_elmo.jsonnet -s OUT
//
// For another biLM than `small`: { archive_file: 'BILM/model.tar.gz' } or any other embedder
// parameters, and dim=..., twice its projection_dim.
local elmo = import 'lib/elmo.libsonnet';

elmo.input(import 'coref.jsonnet', { pretrained: 'small', dropout: 0.5 })
