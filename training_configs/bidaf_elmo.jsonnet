// bidaf.jsonnet with ELMo vectors at the input and at the output of the contextual layer, without
// layer norm and without a penalty on the mixes, as in the paper.
//
//   allennlp train training_configs/bidaf_elmo.jsonnet --include-package elmo_plugin -s OUT
//
// For another biLM than `small`: { archive_file: 'BILM/model.tar.gz' } or any other embedder
// parameters, and its dim, twice its projection_dim.
local elmo = import 'lib/elmo.libsonnet';

elmo.both(import 'bidaf.jsonnet', { pretrained: 'small', dropout: 0.0 }, dim=128)
