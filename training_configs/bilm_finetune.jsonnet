// Continues training an existing biLM on your own text:
//
//   BILM_ARCHIVE=OUT/model.tar.gz BILM_TEXT=my/text BILM_DEV=my/dev.txt \
//     allennlp train training_configs/bilm_finetune.jsonnet --include-package elmo_plugin -s TUNED
//
// BILM_ARCHIVE=small starts from the model that comes with the package, whose sizes are those of
// bilm.jsonnet; with little text this is much better than training from scratch. To start from the
// paper's model, import bilm_1b.jsonnet instead and give bilm-tf's weight file.
(import 'bilm.jsonnet') + {
  train_data_path: std.extVar('BILM_TEXT'),
  validation_data_path: std.extVar('BILM_DEV'),
  // The vocabulary is that of the new text. Words of the old vocabulary keep their softmax.
  model+: { pretrained_file: std.extVar('BILM_ARCHIVE') },
}
