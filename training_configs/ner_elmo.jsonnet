// ner.jsonnet with ELMo vectors at the input:
//
//   ELMO_ARCHIVE=BILM/model.tar.gz allennlp train training_configs/ner_elmo.jsonnet \
//     --include-package elmo_plugin -s OUT
//
// where BILM is the output folder of training bilm.jsonnet.
local elmo = import 'lib/elmo.libsonnet';

elmo.input(
  import 'ner.jsonnet',
  { archive_file: std.extVar('ELMO_ARCHIVE') },
  dim=elmo.dim((import 'bilm.jsonnet').model),
)
