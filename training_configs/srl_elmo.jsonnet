// srl.jsonnet with ELMo vectors at the input, as in the paper:
//
//   ELMO_ARCHIVE=BILM/model.tar.gz allennlp train training_configs/srl_elmo.jsonnet \
//     --include-package elmo_plugin -s OUT
//
// where BILM is the output folder of training bilm.jsonnet.
local elmo = import 'lib/elmo.libsonnet';

elmo.input(
  import 'srl.jsonnet',
  { archive_file: std.extVar('ELMO_ARCHIVE') },
  dim=elmo.dim((import 'bilm.jsonnet').model),
)
