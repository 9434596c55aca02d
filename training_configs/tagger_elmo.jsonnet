// The tagger of tagger.jsonnet, which also reads ELMo vectors:
//
//   ELMO_ARCHIVE=OUT/model.tar.gz ELMO_DIM=128 python -m elmo_plugin train training_configs/tagger_elmo.jsonnet \
//     -s TAGGER
//
// where OUT is the output folder of bilm.jsonnet. For `small`, use the archive pretrained://small and
// the vector size 256, twice its projection_dim.
local elmo = import 'lib/elmo.libsonnet';

elmo.input(
  import 'tagger.jsonnet',
  { archive_file: std.extVar('ELMO_ARCHIVE'), dropout: 0.2 },
  dim=std.parseInt(std.extVar('ELMO_DIM')),
  // As in the paper, weak L2 regularization pulls the mix towards the average of the layers.
  l2=0.001,
)
