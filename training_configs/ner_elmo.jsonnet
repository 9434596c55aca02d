// ner.jsonnet with ELMo vectors at the input and a strong penalty on the mix, which keeps it close
// to the average of the layers, as in the paper.
//
//   python -m elmo_plugin train training_configs/ner_elmo.jsonnet -s OUT
//
// For another biLM than `small`: { archive_file: 'BILM/model.tar.gz' } or any other embedder
// parameters, and dim=..., twice its projection_dim.
local elmo = import 'lib/elmo.libsonnet';

elmo.input(import 'ner.jsonnet', { pretrained: 'small', dropout: 0.0 }, l2=0.1)
