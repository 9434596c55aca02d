// esim.jsonnet with ELMo vectors at the encoder's input and at its output, as in the paper:
//
//   ELMO_ARCHIVE=BILM/model.tar.gz allennlp train training_configs/esim_elmo.jsonnet \
//     --include-package elmo_plugin -s OUT
//
// where BILM is the output folder of training bilm.jsonnet.
local elmo = import 'lib/elmo.libsonnet';

elmo.both(
  import 'esim.jsonnet',
  { archive_file: std.extVar('ELMO_ARCHIVE') },
  dim=elmo.dim((import 'bilm.jsonnet').model),
)
